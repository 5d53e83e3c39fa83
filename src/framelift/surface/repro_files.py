"""Running and shrinking repro files.  `fails` is any test of a graph and its inputs; shrinking keeps it true."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from .._core import is_a
from ..backends.registry import compile_graph
from ..capture.records.captures import Input
from ..report.repro import repro_source
from .cli import COMMANDS

__all__ = ["minify", "run"]

Fails = Callable[[torch.fx.GraphModule, list[Any]], bool]


def run(module: torch.nn.Module, inputs: Sequence[Any], backend: Any) -> int:
    """Compile a graph with a backend, run it, compare with eager.  0 when all is well; a failing backend raises."""
    graph_module = torch.fx.symbolic_trace(module) if not is_a(module, torch.fx.GraphModule) else module
    expected = graph_module(*[_copy(one) for one in inputs])
    actual = compile_graph(backend, graph_module, list(inputs))(*[_copy(one) for one in inputs])
    close = all(
        torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(expected, actual)
        if is_a(a, torch.Tensor) and not a.is_complex() and a.dtype != torch.bool
    )
    print("same as eager" if close else "differs from eager")
    return 0 if close else 1


def _copy(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if is_a(value, torch.Tensor) else value


def minify(module: torch.fx.GraphModule, inputs: Sequence[Any], fails: Fails) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The smallest graph found that still fails: operations after the failure are dropped, results before it become
    inputs.

    >>> import torch
    >>> module = torch.fx.symbolic_trace(lambda x: (x.sin().cos().exp() + 1).tanh())
    >>> small, given = minify(module, [torch.ones(2)], lambda g, i: any(n.target == "exp" for n in g.graph.nodes))
    >>> [node.target for node in small.graph.nodes if node.op.startswith("call")]
    ['exp']
    """
    if not fails(module, list(inputs)):
        raise ValueError("it does not fail as it is")
    current, given = module, list(inputs)
    progress = True
    while progress:
        progress = False
        for step in (_shorter, _later, _fewer_inputs):
            for candidate in step(current, given):
                if _safe(fails, *candidate):
                    current, given = candidate
                    progress = True
                    break
    return current, given


def _safe(fails: Fails, module: torch.fx.GraphModule, inputs: list[Any]) -> bool:
    try:
        return fails(module, inputs)
    except Exception:
        return False


def _operations(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op.startswith("call_")]


def _shorter(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Graphs that end earlier, the shortest first."""
    count = len(_operations(module.graph))
    current = sum(node.op.startswith("call_") for node in module.graph.nodes)
    for end in range(1, count):
        graph, nodes = _copied(module)
        last = _operations(graph)[end - 1]
        output = next(node for node in graph.nodes if node.op == "output")
        output.args = ((last,),)
        graph.eliminate_dead_code()
        if len(_operations(graph)) < current:
            yield torch.fx.GraphModule(module, graph), inputs


def _later(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Graphs in which one result is given instead of computed, the last possible first."""
    values = _values(module, inputs)
    for index in range(len(_operations(module.graph)) - 1, -1, -1):
        graph, _ = _copied(module)
        node = _operations(graph)[index]
        value = values.get(_operations(module.graph)[index])
        if not is_a(value, torch.Tensor) or not any(user.op != "output" for user in node.users):
            continue
        last = [n for n in graph.nodes if n.op == "placeholder"]
        with graph.inserting_after(last[-1]) if last else graph.inserting_before(next(iter(graph.nodes))):
            given = graph.placeholder(f"given_{index}")
        node.replace_all_uses_with(given)
        graph.erase_node(node)
        graph.eliminate_dead_code()
        if len(_operations(graph)) < len(_operations(module.graph)):
            yield torch.fx.GraphModule(module, graph), [*inputs, value.detach()]


def _fewer_inputs(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """The graph without the inputs it does not use."""
    graph, _ = _copied(module)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    kept = [value for node, value in zip(placeholders, inputs) if node.users]
    if len(kept) < len(inputs):
        for node in placeholders:
            if not node.users:
                graph.erase_node(node)
        yield torch.fx.GraphModule(module, graph), kept


def _copied(module: torch.fx.GraphModule) -> tuple[torch.fx.Graph, dict[Any, Any]]:
    graph = torch.fx.Graph()
    nodes: dict[Any, Any] = {}
    result = graph.graph_copy(module.graph, nodes)
    graph.output(result if is_a(result, tuple) else (result,))
    return graph, nodes


def _values(module: torch.fx.GraphModule, inputs: list[Any]) -> dict[torch.fx.Node, Any]:
    """What every operation gives, in eager."""
    found: dict[torch.fx.Node, Any] = {}

    class Keep(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            found[node] = super().run_node(node)
            return found[node]

    try:
        Keep(module).run(*[_copy(one) for one in inputs])
    except Exception:  # it fails in eager too: what was computed before that is enough
        pass
    return found


# ---- the command
# ------------------------------------------------------------------------------------------------------


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repro", help="a file that framelift.save_repro wrote")
    parser.add_argument("-o", "--out", help="the smaller file (default: NAME_small.py)")


def _minify(options: argparse.Namespace) -> int:
    space = runpy.run_path(options.repro, run_name="repro")
    backend = space["BACKEND"]

    def fails(module: torch.fx.GraphModule, inputs: list[Any]) -> bool:
        try:
            return run(module, inputs, backend) != 0
        except Exception:
            return True

    module = torch.fx.symbolic_trace(space["Repro"]())
    try:
        small, inputs = minify(module, space["make_inputs"](), fails)
    except ValueError as error:
        print(f"framelift: {error}", file=sys.stderr)
        return 1
    source = Path(options.repro)
    target = Path(options.out or source.with_name(f"{source.stem}_small.py"))
    facts = [Input.of(value, f"input {number}") for number, value in enumerate(inputs)]
    target.write_text(
        repro_source(small, facts, backend, why=f"Made smaller from {source.name}.", file=target.name), encoding="utf-8"
    )
    print(f"framelift: {len(_operations(module.graph))} operations became {len(_operations(small.graph))}, in {target}")
    return 0


COMMANDS["minify"] = ("make a repro file smaller as long as it fails", _arguments, _minify)

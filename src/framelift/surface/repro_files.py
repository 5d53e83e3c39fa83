"""Running and shrinking repro files.  `fails` is any test of a graph and its inputs; shrinking keeps it true."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .._core import is_a
from ..backends.correctness import copied_input
from ..backends.registry import compile_graph, lookup_backend
from ..capture.records.captures import Input
from ..exc import BackendCompilerFailed, InvalidBackend
from ..guards.kinds import tensor_facts
from ..report.repro import repro_source
from .cli import COMMANDS

Fails = Callable[[torch.fx.GraphModule, list[Any]], bool]


@dataclass(frozen=True, slots=True)
class Failure:
    """How a graph fails: what is raised, what it says (numbers and addresses aside), and the line that raises it."""

    kind: str
    text: str
    place: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Of what a backend raised itself, where framelift's error is about that."""
        cause = error.__cause__ if is_a(error, BackendCompilerFailed) and error.__cause__ is not None else error
        frames = traceback.extract_tb(cause.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return cls(type(cause).__qualname__, same_text(str(cause)), place)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


DIFFERS = Failure("differs from eager", "", "")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def same_text(text: str) -> str:
    """A message without what differs between graphs of different sizes."""
    return _NUMBERS.sub("0", text)


def run(module: torch.nn.Module, inputs: Sequence[Any], backend: Any) -> int:
    """Compile a graph with a backend, run it, compare with eager.  0 when all is well; a failing backend raises."""
    close = _is_close(module, inputs, backend)
    print("same as eager" if close else "differs from eager")
    return 0 if close else 1


def failure_of(module: torch.nn.Module, inputs: Sequence[Any], backend: Any) -> Failure | None:
    """How a graph fails with a backend; None: it does not.  A backend that is not there is no failure of a graph."""
    try:
        return None if _is_close(module, inputs, backend) else DIFFERS
    except InvalidBackend:
        raise
    except Exception as error:
        return Failure.of(error)


def _is_close(module: torch.nn.Module, inputs: Sequence[Any], backend: Any) -> bool:
    if backend is None:
        raise InvalidBackend("the file does not know its backend: define BACKEND in it")
    graph_module = torch.fx.symbolic_trace(module) if not is_a(module, torch.fx.GraphModule) else module
    expected = graph_module(*map(copied_input, inputs))
    actual = compile_graph(lookup_backend(backend), graph_module, list(inputs))(*map(copied_input, inputs))
    return all(
        torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(expected, actual)
        if is_a(a, torch.Tensor) and not a.is_complex() and a.dtype != torch.bool
    )


def minify(module: torch.fx.GraphModule, inputs: Sequence[Any], fails: Fails) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The smallest graph that torch's minifier finds and that still fails.  Raises RuntimeError where it does not fail.

    >>> import torch
    >>> module = torch.fx.symbolic_trace(lambda x: (x.sin().cos().exp() + 1).tanh())
    >>> small, _ = minify(module, [torch.ones(2)], lambda g, _: any(g.graph.find_nodes(op="call_method", target="exp")))
    >>> [node.target for node in small.graph.nodes if node.op.startswith("call")]
    ['exp']
    """
    from functorch.compile import minifier

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it tells each step
        small, given = minifier(module, list(inputs), fails, lambda graph, values: None)
    return small, [one.detach() if is_a(one, torch.Tensor) and not one.is_leaf else one for one in given]


def _operations(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op.startswith("call_")]


# ---- the command
# ------------------------------------------------------------------------------------------------------


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repro", help="a file that framelift.save_repro wrote")
    parser.add_argument("-o", "--out", help="the smaller file (default: NAME_small.py)")


def _minify(options: argparse.Namespace) -> int:
    """As long as it fails in the same way: the same exception, from the same line, with the same text."""
    source = Path(options.repro)
    space = runpy.run_path(options.repro, run_name="repro")
    backend, noted = space["BACKEND"], space.get("FAILURE")
    module, given = torch.fx.symbolic_trace(space["Repro"]()), space["make_inputs"]()
    try:
        wanted = failure_of(module, given, backend)
    except InvalidBackend as error:
        return _refuse(str(error))
    if wanted is None:
        return _refuse("it does not fail as it is")
    if noted is not None and (wanted.kind, wanted.text) != (noted[0], same_text(noted[1])):
        return _refuse(f"it fails otherwise than it did: {wanted}; it was {noted[0]}: {noted[1]}")
    small, inputs = minify(module, given, lambda graph, values: failure_of(graph, values, backend) == wanted)
    target = Path(options.out or source.with_name(f"{source.stem}_small.py"))
    facts = [
        Input(f"input {n}", tensor_facts(value)) if is_a(value, torch.Tensor) else value
        for n, value in enumerate(inputs)
    ]
    kept = _BACKEND.search(source.read_text("utf-8"))
    lines = kept[1] if kept is not None else f"BACKEND = {backend!r}\n"
    why = f"Made smaller from {source.name}, which fails in the same way: {wanted}."
    text = repro_source(small, facts, lines, why=why.replace('"""', "'''").replace("\\", "/"), file=target.name)
    target.write_text(text, encoding="utf-8")
    print(f"framelift: {len(_operations(module.graph))} operations became {len(_operations(small.graph))}, in {target}")
    print(f"framelift: it still fails with {wanted}")
    return 0


def _refuse(sentence: str) -> int:
    print(f"framelift: {sentence}", file=sys.stderr)
    return 1


#: what stays as it is, or as somebody changed it, when a file is made smaller
_BACKEND = re.compile(r"^# ---- backend ----\n(.*?)^# ---- graph ----\n", re.S | re.M)
COMMANDS["minify"] = ("make a repro file smaller as long as it fails in the same way", _arguments, _minify)

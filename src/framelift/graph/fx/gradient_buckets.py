"""`config.optimize_ddp`: a graph of a model in DistributedDataParallel is compiled in parts, one for each bucket of
gradients, so that a bucket is sent while the backward of the parts before it still runs.

A graph that is compiled whole has one backward, which gives all gradients at its end.  The graph is cut only where that
changes nothing else: tensors alone cross a cut, and memory that is written to is on one side of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from ... import config
from ..._core import is_a
from ...torch_ports.fakes import FakeTensorMode
from ...torch_ports.graphs import first_bucket_bytes, tree_leaves
from ...vocabulary.log import topic, warn
from ...vocabulary.outside_exceptions import raise_outside
from .examples import fake_of

Compile = Callable[[GraphModule, list[Any], FakeTensorMode], Callable[..., Any]]


class _Part(NamedTuple):
    """One part of a graph, compiled: the values it takes, those it gives, and those nobody needs after it."""

    run: Callable[..., Any]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    over: tuple[str, ...]


def compile_in_parts(
    graph_module: GraphModule, examples: Sequence[Any], compile_part: Compile
) -> Callable[..., Any] | None:
    """Compile the graph in parts, and return the function that runs them; None where it is to be compiled whole."""
    module = _active_module()
    if module is None or not torch.is_grad_enabled() or not _is_asked_for():
        return None
    nodes = [node for node in graph_module.graph.nodes if node.op not in ("placeholder", "output")]
    if any(node.op == "get_attr" for node in nodes):  # bodies of operators belong to who calls them
        return None
    mode = FakeTensorMode()
    trial = _Trial(graph_module)
    try:
        with mode:
            trial.run(*[_fake(mode, example) for example in examples])
    except Exception as error:
        raise_outside(error)
        return None
    if trial.has_others:
        return None
    cap = module.bucket_bytes_cap
    cuts = _cuts(nodes, _sizes(graph_module, nodes, examples), trial.uncut(nodes), cap)
    if not cuts:
        return None
    topic("graph").info("a graph of %d operations is compiled in %d parts", len(nodes), len(cuts) + 1)
    return _compiled(graph_module, nodes, cuts, dict(zip(_inputs(graph_module), examples)), trial, mode, compile_part)


def _is_asked_for() -> bool:
    """By `config.optimize_ddp`; `verify_correctness` runs a graph on its real inputs, so it needs the whole one."""
    if config.optimize_ddp not in (True, False, "ddp_optimizer", "no_optimization"):
        warn(f"optimize_ddp = {config.optimize_ddp!r} has no effect: gradients are reduced by DistributedDataParallel")
        return False
    return config.optimize_ddp in (True, "ddp_optimizer") and not config.verify_correctness


def _active_module() -> Any:
    """The DistributedDataParallel module whose forward is running."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    return parallel.DistributedDataParallel._get_active_ddp_module() if parallel is not None else None


def _fake(mode: FakeTensorMode, example: Any) -> Any:
    return fake_of(mode, example) if is_a(example, torch.Tensor) else example


def _inputs(graph_module: GraphModule) -> list[str]:
    return [node.name for node in graph_module.graph.find_nodes(op="placeholder")]


def _tensors(values: Any) -> Iterable[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if is_a(leaf, torch.Tensor))


class _Trial(Interpreter):
    """One run of the graph on fakes: its values, and which memory its operations touch and write to."""

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self.values: dict[str, Any] = {}
        self.touched: dict[int, list[str]] = {}  # by storage: the operations
        self.written: set[int] = set()
        self.has_others = False  # an operation gave neither tensors nor numbers: it may switch torch's state

    def run_node(self, n: Node) -> Any:
        if n.op in ("placeholder", "output"):
            result = super().run_node(n)
            self.values[n.name] = result
            return result
        given = list(_tensors(self.fetch_args_kwargs_from_env(n)))
        before = [tensor._version for tensor in given]
        result = self.values[n.name] = super().run_node(n)
        leaves = tree_leaves(result)
        self.has_others |= not leaves or not all(is_a(leaf, (torch.Tensor, int, float)) for leaf in leaves)
        for tensor in (*given, *_tensors(result)):
            names = self.touched.setdefault(tensor.untyped_storage()._cdata, [])
            if names[-1:] != [n.name]:
                names.append(n.name)
        for tensor, version in zip(given, before):
            if tensor._version != version:
                self.written.add(tensor.untyped_storage()._cdata)
        return result

    def uncut(self, nodes: list[Node]) -> set[int]:
        """After which operations the graph may not be cut."""
        places = {node.name: place for place, node in enumerate(nodes)}
        found: set[int] = set()
        for place, node in enumerate(nodes):
            if not is_a(self.values[node.name], torch.Tensor):
                users = [places.get(user.name, len(nodes)) for user in node.users]
                found.update(range(place, max(users, default=place)))
        for storage in self.written:
            touching = [places[name] for name in self.touched[storage]]
            found.update(range(min(touching), max(touching)))
        return found


def _sizes(graph_module: GraphModule, nodes: list[Node], examples: Sequence[Any]) -> list[int]:
    """For each operation the bytes of the parameters that it is the last to use, whose gradients are ready first."""
    places = {node: place for place, node in enumerate(nodes)}
    sizes = [0] * len(nodes)
    for node, example in zip(graph_module.graph.find_nodes(op="placeholder"), examples):
        used = [places[user] for user in node.users if user in places]
        if used and is_a(example, torch.nn.Parameter) and example.requires_grad:
            if not getattr(example, "_ddp_ignored", False):
                sizes[max(used)] += example.numel() * example.element_size()
    return sizes


def _cuts(nodes: list[Node], sizes: list[int], uncut: set[int], cap: int) -> list[int]:
    """Operations after which the graph is cut, in their order.  The part whose gradients are ready first is smaller,
    as DistributedDataParallel's first bucket is.
    """
    cuts: list[int] = []
    first, filled = min(cap, first_bucket_bytes), 0
    for place in range(len(nodes) - 1, 0, -1):
        filled += sizes[place]
        if filled >= (cap if cuts else first) and place - 1 not in uncut and any(sizes[:place]):
            cuts.insert(0, place - 1)
            filled = 0
    return cuts


def _compiled(
    graph_module: GraphModule,
    nodes: list[Node],
    cuts: list[int],
    examples: dict[str, Any],
    trial: _Trial,
    mode: FakeTensorMode,
    compile_part: Compile,
) -> Callable[..., Any]:
    """The parts, compiled one after the other, and what runs them."""
    output = graph_module.graph.output_node()
    inputs, results = tuple(examples), output.args[0]
    assert is_a(results, (tuple, list))
    part_of = {node: sum(place > cut for cut in cuts) for place, node in enumerate(nodes)}
    part_of[output] = len(cuts) + 1
    parts: list[_Part] = []
    for number in range(len(cuts) + 1):
        own = [node for node in nodes if part_of[node] == number]
        takes = list(dict.fromkeys(one for node in own for one in node.all_input_nodes if part_of.get(one) != number))
        gives = [node for node in own if any(part_of[user] > number for user in node.users)]
        graph, copies = Graph(), {}
        for node in takes:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        for node in own:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in gives))
        part = GraphModule(torch.nn.Module(), graph)
        part.meta.update(graph_module.meta)
        given = [examples[node.name] if node.name in examples else _leaf(trial, node) for node in takes]
        ends = [n for n in (*takes, *gives) if all(part_of[user] <= number for user in n.users)]
        run = compile_part(part, given, mode)
        named = (tuple(node.name for node in some) for some in (takes, gives, ends))
        parts.append(_Part(run, *named))

    def in_parts(*given: Any) -> tuple[Any, ...]:
        values = dict(zip(inputs, given))
        for part in parts:
            values.update(zip(part.gives, part.run(*[values[name] for name in part.takes])))
            for name in part.over:
                del values[name]
        return tuple(values[one.name] if is_a(one, Node) else one for one in results)

    return in_parts


def _leaf(trial: _Trial, node: Node) -> torch.Tensor:
    """A value between two parts as the second is given it: without the history that the first made."""
    value: torch.Tensor = trial.values[node.name]
    return value.detach().requires_grad_(value.requires_grad)

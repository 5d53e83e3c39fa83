"""Calls of subgraphs in a graph, before a backend gets it: equal ones are shared, equal runs of nodes become such calls
(`config.use_graph_deduplication`), and calls are written out where backends cannot take them
(`config.inline_invoke_subgraph`, `config.inline_single_use_invoke_subgraph`).
"""

from __future__ import annotations

import collections
import operator
from typing import Any, NamedTuple

import torch
from torch.fx.graph_module import GraphModule
from torch.fx.node import Node

from .. import config
from ..graph.fx.node_functions import compile_region
from .layers.repeated_layers import NAME, are_alike, facts_of, fold_repeated_layers
from .rewrites import EQUAL_RUNS, may_rewrite, rewrote

_SMALLEST = 2  # nodes of a run that is worth a subgraph, where the program asks for that
_CALLS = (compile_region, torch.ops.higher_order.invoke_subgraph)


class _SubgraphCall(NamedTuple):
    node: Node
    body: GraphModule

    @property
    def inputs(self) -> tuple[Any, ...]:
        return tuple(self.node.args[2:])


def arrange_subgraphs(graph_module: GraphModule, is_trained: bool) -> None:
    """Share, fold and write out, as the options say.  Changes the graph.

    `is_trained`: Inductor compiles it with a backward.  Regions of the program are written out then: gradients of
    regions that share an input were seen to be wrong there.
    """
    calls = _calls(graph_module)
    changed = _share(calls) if len(calls) > 1 else False
    is_plain = not may_rewrite(EQUAL_RUNS)
    if config.use_graph_deduplication and not is_plain:
        if fold_repeated_layers(graph_module, 2, smallest=_SMALLEST):
            rewrote(EQUAL_RUNS)
            changed = True
        calls = _calls(graph_module)
    uses = collections.Counter(id(call.body) for call in calls)
    for call in calls:
        is_region = call.node.target is compile_region
        once = config.inline_single_use_invoke_subgraph and uses[id(call.body)] == 1 and not is_region
        folded = is_plain and str(call.node.args[0].target).startswith(NAME)
        if config.inline_invoke_subgraph or once or folded or is_region and is_trained:
            _write_out(graph_module, call)
            changed = True
    if changed:
        _clean(graph_module)


def write_out_calls(graph_module: GraphModule) -> bool:
    """Put the nodes of all subgraphs in the place of their calls.  Returns whether there were any."""
    calls = _calls(graph_module)
    for call in calls:
        _write_out(graph_module, call)
    if calls:
        _clean(graph_module)
    return bool(calls)


def _clean(graph_module: GraphModule) -> None:
    graph_module.graph.eliminate_dead_code()
    graph_module.delete_all_unused_submodules()
    graph_module.graph.lint()
    graph_module.recompile()


def _calls(graph_module: GraphModule) -> list[_SubgraphCall]:
    found = []
    for node in graph_module.graph.nodes:
        if node.target in _CALLS:
            body = getattr(graph_module, node.args[0].target, None)
            if isinstance(body, GraphModule):
                found.append(_SubgraphCall(node, body))
    return found


def _text(body: GraphModule) -> tuple[Any, ...]:
    """Return a key that equal subgraphs share: nodes, targets, constants, and the same tensors and modules inside."""
    places = {node: number for number, node in enumerate(body.graph.nodes)}

    def shown(argument: Any) -> Any:
        return repr(torch.fx.node.map_arg(argument, lambda node: f"%{places[node]}"))

    return tuple(
        (
            node.op,
            node.target if node.op in ("call_method", "placeholder", "output") else _target(body, node),
            shown(node.args),
            shown(node.kwargs),
        )
        for node in body.graph.nodes
    )


def _target(body: GraphModule, node: Node) -> Any:
    return id(operator.attrgetter(node.target)(body)) if isinstance(node.target, str) else id(node.target)


def _share(calls: list[_SubgraphCall]) -> bool:
    """Calls of equal subgraphs call the first of them: compilers compile it once."""
    firsts: dict[tuple[Any, ...], list[_SubgraphCall]] = {}
    changed = False
    for call in calls:
        known = firsts.setdefault(_text(call.body), [])
        first = next((one for one in known if _are_alike(one, call)), None)
        if first is None:
            known.append(call)
        elif first.body is not call.body:
            call.node.args = (*first.node.args[:2], *call.inputs)
            changed = True
    return changed


def _are_alike(one: _SubgraphCall, other: _SubgraphCall) -> bool:
    """Return whether two calls are given tensors of equal metadata; a node with several results has none of its own."""
    return len(one.inputs) == len(other.inputs) and all(
        a is b or isinstance(a, Node) and isinstance(b, Node) and are_alike(facts_of(a), facts_of(b))
        for a, b in zip(one.inputs, other.inputs)
    )


def _write_out(graph_module: GraphModule, call: _SubgraphCall) -> None:
    """The nodes of the subgraph in place of its call."""
    graph, given = graph_module.graph, iter(call.inputs)
    known: dict[Node, Any] = {}
    with graph.inserting_before(call.node):
        for node in call.body.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(given)
            elif node.op == "get_attr":
                name = f"{call.node.args[0].target}_{node.target}".replace(".", "_")
                setattr(graph_module, name, operator.attrgetter(node.target)(call.body))
                known[node] = graph.get_attr(name)
            elif node.op == "output":
                results = torch.fx.node.map_arg(node.args[0], lambda inner: known[inner])
            else:
                known[node] = graph.node_copy(node, lambda inner: known[inner])
    for user in list(call.node.users):
        assert user.target is operator.getitem
        _replace(user, results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(call.node)


def _replace(node: Node, value: Any) -> None:
    """A result of a subgraph may be None or a number, too."""
    if isinstance(value, Node):
        node.replace_all_uses_with(value)
        return
    for reader in list(node.users):
        reader.args = torch.fx.node.map_arg(reader.args, lambda one: value if one is node else one)
        reader.kwargs = torch.fx.node.map_arg(reader.kwargs, lambda one: value if one is node else one)

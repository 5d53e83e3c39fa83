"""Calls of folded layers (repeated_layers.py) in the graphs that Inductor is given: their results share no memory.

To run a layer backward, torch's partitioner lets its forward return what the backward needs: inputs of the layer, its
results a second time, and views of both.  Inductor takes each of them for a tensor of its own, and overwrites one of
them where nobody reads *that* one any more.  Gradients were wrong.  So here a layer returns each tensor once, and
nothing that it was given; the graph around it makes the views.  What is computed from inputs that all calls share, and
is kept for the backward or needs memory of its own in any case, moves out of the layer: it is computed and kept once,
as in a graph without folded layers.

Inductor also takes the places of inputs that the backward may overwrite for those of each layer's backward:
`functorch_settings` turns that off.
"""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from ...torch_ports.inductor import custom_graph_pass
from ...torch_ports.modes import is_traceable_wrapper_subclass
from ...torch_ports.operators import OpOverload

_CALL = torch.ops.higher_order.invoke_subgraph

#: of torch._functorch.config, while a graph with folded layers is compiled
functorch_settings = {"donated_buffer": False}


class SeparateResults(custom_graph_pass.CustomGraphPass):
    """For the joint graph of forward and backward, before it is partitioned."""

    def __call__(self, graph: Graph) -> None:
        separate_results(graph, is_joint=True)

    def uuid(self) -> str:
        return "framelift separate results 2"


def separate_results(graph: Graph, is_joint: bool = False) -> None:
    """Let the layers of a graph return each tensor once, and nothing that they are given."""
    module = graph.owning_module
    calls: dict[str, list[Node]] = collections.defaultdict(list)
    for node in graph.find_nodes(op="call_function", target=_CALL):
        calls[node.args[0].target].append(node)
    for name, found in calls.items():
        layer = module.get_submodule(name)
        changed = len(found) > 1 and _move_out(graph, layer, found)
        if _return_once(graph, layer, found) or changed:
            layer.graph.eliminate_dead_code()
            layer.recompile()
        if not is_joint:  # the partitioner knows which inputs the layer has
            _drop_unread(layer, found)
    if calls:
        graph.lint()
        module.recompile()


# ---- each tensor once ------------------------------------------------------------------------------------------------


def _return_once(graph: Graph, layer: GraphModule, calls: list[Node]) -> bool:
    returned = list(layer.graph.output_node().args[0])
    roots = [_root(one) if _has_memory(one) else None for one in returned]
    often = collections.Counter(root for root in roots if root is not None)
    kept: list[Any] = []  # what the layer returns from now on
    source: list[Any] = []  # for each of today's results its place in `kept`, or what it is made of
    for one, root in zip(returned, roots):
        if root is not None and root.op == "placeholder":
            source.append(root)
        elif root is not None and often[root] > 1:
            if root not in kept:
                kept.append(root)
            source.append(root)
        else:
            source.append(len(kept))
            kept.append(one)
    if kept == returned:
        return False
    for call in calls:
        _take_results(graph, layer, call, returned, kept, source)
    layer.graph.output_node().args = (tuple(kept),)
    return True


def _take_results(
    graph: Graph, layer: GraphModule, call: Node, returned: list[Any], kept: list[Any], source: list[Any]
) -> None:
    """Let a call's results be taken from what the layer returns from now on."""
    readers = list(call.users)
    call.meta["val"] = tuple(one.meta["val"] if isinstance(one, Node) else one for one in kept)
    known: dict[Node, Node] = dict(zip(layer.graph.find_nodes(op="placeholder"), call.args[2:]))
    with graph.inserting_before(call.next):  # and so before all who read a result
        for reader in readers:
            if reader.target is not operator.getitem:
                raise NotImplementedError(f"a call of a layer is used by {reader.target}")  # caught, as below
            place = reader.args[1]
            if type(source[place]) is int:
                reader.args = (call, source[place])
                continue
            root = source[place]
            if root not in known:
                known[root] = graph.call_function(operator.getitem, (call, kept.index(root)))
                known[root].meta.update({**reader.meta, "val": root.meta["val"]})
            reader.replace_all_uses_with(_rebuilt(graph, returned[place], known, reader.meta))
            graph.erase_node(reader)


def _root(node: Node) -> Node:
    """The value whose memory a value has."""
    memory = _storages(node)
    while (base := _base(node, memory)) is not None:
        node = base
    return node


def _base(node: Node, memory: set[int]) -> Node | None:
    for one in node.all_input_nodes:
        if not memory.isdisjoint(_storages(one)):
            return one if isinstance(one.meta["val"], torch.Tensor) else _base(one, memory)
    return None


def _has_memory(value: Any) -> bool:
    return isinstance(value, Node) and bool(_storages(value))


def _storages(node: Node) -> set[int]:
    value = node.meta.get("val")
    tensors = [one for one in (value if isinstance(value, (tuple, list)) else (value,)) if _is_strided_tensor(one)]
    return {one.untyped_storage()._cdata for one in tensors}


def _is_strided_tensor(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.layout is torch.strided and not is_traceable_wrapper_subclass(value)
    )


def _rebuilt(graph: Graph, node: Node, known: dict[Node, Node], meta: dict[str, Any]) -> Node:
    """A value of a layer computed in the graph around it, from what is known there."""
    if node not in known:
        if node.op != "call_function":
            raise NotImplementedError(f"{node.op} in the place of a view")  # caught: the layers are written out
        for one in node.all_input_nodes:
            _rebuilt(graph, one, known, meta)
        copy = known[node] = graph.node_copy(node, known.__getitem__)
        compute: Any = copy.target
        args, kwargs = map_arg((copy.args, copy.kwargs), lambda one: one.meta["val"])
        copy.meta = {**meta, "val": compute(*args, **kwargs)}
    return known[node]


# ---- what all calls share --------------------------------------------------------------------------------------------


def _move_out(graph: Graph, layer: GraphModule, calls: list[Node]) -> bool:
    """Compute what a layer returns, or materializes, of inputs that all calls share before the first call."""
    given = layer.graph.find_nodes(op="placeholder")
    shared = {
        one: operands[0] for one, *operands in zip(given, *(call.args[2:] for call in calls)) if len({*operands}) == 1
    }
    moved = False
    wanted = dict.fromkeys((*_roots(layer.graph.output_node().args[0]), *_roots(_read_by_kernels(layer.graph, shared))))
    for result in wanted:
        behind = _all_behind(result)
        if not behind & shared.keys() or not all(_may_move(one, shared) for one in behind):
            continue
        with graph.inserting_before(calls[0]):
            outside = _rebuilt(graph, result, dict(shared), _meta_of_forward(calls[0]))
        with layer.graph.inserting_after(given[-1]):
            given.append(layer.graph.placeholder(f"shared_{len(given)}"))
        given[-1].meta["val"] = result.meta["val"]
        result.replace_all_uses_with(given[-1])
        for call in calls:
            call.args = (*call.args, outside)
            if "eager_input_vals" in call.meta:
                args, kwargs = call.meta["eager_input_vals"]
                call.meta["eager_input_vals"] = ((*args, outside.meta["val"]), kwargs)
        moved = True
    return moved


def _read_by_kernels(graph: Graph, shared: dict[Node, Any]) -> list[Node]:
    """Values that may move and are read by an operation that no compiler fuses with them (matrix products, attention):
    they have memory of their own in any case.
    """
    movable: set[Node] = set()
    found = []
    for node in graph.nodes:
        if _may_move(node, shared) and movable.issuperset(node.all_input_nodes):
            movable.add(node)
        elif node.op == "call_function" and not _is_fused(node):
            found += [one for one in node.all_input_nodes if one in movable]
    return found


def _is_fused(node: Node) -> bool:
    target = node.target
    return not isinstance(target, OpOverload) or torch.Tag.pointwise in target.tags or target.is_view


def _drop_unread(layer: GraphModule, calls: list[Node]) -> None:
    """Give the layer only what it reads."""
    given = layer.graph.find_nodes(op="placeholder")
    read = [bool(one.users) for one in given]
    if all(read):
        return
    for call in calls:
        call.args = (*call.args[:2], *itertools.compress(call.args[2:], read))
        if "eager_input_vals" in call.meta:
            args, kwargs = call.meta["eager_input_vals"]
            call.meta["eager_input_vals"] = ((*args[:2], *itertools.compress(args[2:], read)), kwargs)
    for one, is_read in zip(given, read):
        if not is_read:
            layer.graph.erase_node(one)
    layer.recompile()


def _roots(returned: Iterable[Any]) -> list[Node]:
    roots = dict.fromkeys(_root(one) for one in returned if _has_memory(one))
    return [one for one in roots if one.op != "placeholder"]


def _all_behind(node: Node) -> set[Node]:
    found, todo = {node}, [node]
    while todo:
        new = set(todo.pop().all_input_nodes) - found
        found |= new
        todo.extend(new)
    return found


def _may_move(node: Node, shared: dict[Node, Any]) -> bool:
    if node.op == "placeholder":
        return node in shared
    random = getattr(node.target, "tags", ())
    return node.op == "call_function" and not node.is_impure() and torch.Tag.nondeterministic_seeded not in random


def _meta_of_forward(call: Node) -> dict[str, Any]:
    return {key: call.meta[key] for key in ("stack_trace", "nn_module_stack", "seq_nr") if key in call.meta}

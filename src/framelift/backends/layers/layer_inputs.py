"""Inputs of folded layers (repeated_layers.py) in the graphs that Inductor is given: of equal strides in all calls, and
checked once.

Inductor compiles a layer for the operands of its first call.  Other calls may have operands of other strides, for
example a value that the forward saved as its kernel left it, channels-last, where the others are results of layers.
torch raises for such a call, or reads it with the wrong strides.  So each further group of strides gets a copy of the
layer, and what a call is given is fixed to the strides of its group.

The code of a layer would check sizes and strides of its inputs at each call, a microsecond each.  The graph around it
has made them so, so calls are written without; the graph's own inputs, and results of kernels that are not
Inductor's, are checked as before.  A part of a graph that Inductor divides is written in the same way, and is no
layer.

Inductor replaces views by reshapes, since a view of operands of other strides may fail; in layers it leaves the
generated code as it was.  So it is done here, for all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from ...torch_ports.autograd import torch_c
from ...torch_ports.fakes import detect_fake_mode
from ...vocabulary.scopes import scope

_CALL = torch.ops.higher_order.invoke_subgraph
_CHECKS = "codegen_input_size_asserts"
_lock = threading.Lock()
_compiles = 0  # that are going on


def group_calls_by_strides(graph_module: GraphModule, example_inputs: Sequence[Any]) -> None:
    """Let the calls of a layer have operands of equal strides, with copies of the layer where they have not."""
    graph, calls = graph_module.graph, graph_module.graph.find_nodes(op="call_function", target=_CALL)
    if not calls:
        return
    views_to_reshapes(graph_module)
    with torch.no_grad(), torch_c._DisableAutocast():
        FakeTensorProp(graph_module, detect_fake_mode(example_inputs)).propagate_dont_convert_inputs(*example_inputs)
    groups: dict[tuple[Any, ...], tuple[str, tuple[Any, ...]]] = {}  # the layer of a group, and operands to be like
    copies: dict[str, int] = {}
    for call in calls:
        name = call.args[0].target
        operands = tuple(one.meta["val"] for one in call.args[2:])
        key = (name, *map(_strides, operands))
        if key not in groups:
            number = copies[name] = copies.get(name, -1) + 1
            layer = f"{name}_{number}" if number else name
            if number:
                graph_module.add_module(layer, copied(graph_module.get_submodule(name)))
            groups[key] = layer, operands
        layer, like = groups[key]
        if layer != name:
            with graph.inserting_before(call):
                call.args = (graph.get_attr(layer), f"{call.args[1]}_{layer}", *call.args[2:])
        call.meta["eager_input_vals"] = ((None, None, *like), {})  # Inductor fixes the strides of operands to these
    if len(groups) > len(copies):
        graph.eliminate_dead_code()
        graph.lint()
        graph_module.recompile()


def views_to_reshapes(graph_module: GraphModule) -> None:
    """Replace the views of a graph and of its layers by reshapes."""
    for part in graph_module.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
                node.target = torch.ops.aten.reshape.default
            part.recompile()


def _strides(operand: Any) -> Any:
    if not isinstance(operand, torch.Tensor) or operand.layout is not torch.strided:
        return None
    return tuple(map(str, operand.stride()))  # as text: symbolic ones cannot be hashed


def copied(graph_module: Any) -> GraphModule:
    """A copy of a graph, with its metadata: compilers change the graph that they are given."""
    graph = Graph()
    graph.output(graph.graph_copy(graph_module.graph, {}))
    graph.output_node().meta.update(graph_module.graph.output_node().meta)
    copy = GraphModule(graph_module, graph)
    copy.meta.update(graph_module.meta)
    return copy


@scope
def inputs_checked_once() -> Iterator[None]:
    """While it lasts, Inductor writes subgraphs that trust the graph around them."""
    from ...torch_ports.inductor import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

    if _compiles == 0 and (_CHECKS in vars(SubgraphPythonWrapperCodegen) or not hasattr(PythonWrapperCodegen, _CHECKS)):
        yield  # another version of torch
        return

    def check_parts(self: Any) -> None:
        if getattr(self, "partition_signatures", None) is not None:
            getattr(PythonWrapperCodegen, _CHECKS)(self)

    _count(SubgraphPythonWrapperCodegen, check_parts, 1)
    try:
        yield
    finally:
        _count(SubgraphPythonWrapperCodegen, check_parts, -1)


def _count(codegen: Any, check: Any, change: int) -> None:
    global _compiles
    with _lock:
        _compiles += change
        if _compiles and _CHECKS not in vars(codegen):
            setattr(codegen, _CHECKS, check)
        elif not _compiles:
            delattr(codegen, _CHECKS)

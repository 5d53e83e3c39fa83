"""The backend cudagraphs: AOTAutograd's graphs are recorded on the device and replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..torch_ports.graphs import tree_leaves
from ..vocabulary.log import topic
from .builtin import aot_autograd, boxed
from .registrations import register


class _CudaGraphs:
    """The backend itself; an object, because it has something to reset."""

    compiler_name = "cudagraphs"
    unrolls_recurrent_networks = True

    def reset(self) -> None:
        from ..torch_ports.inductor import reset_cudagraph_trees

        reset_cudagraph_trees()

    def __call__(
        self, graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], **_ignored: Any
    ) -> Callable[..., Any]:
        from ..torch_ports.inductor import count_tangents, num_fw_fixed_arguments

        inputs = len(example_inputs)

        def forward(aot_module: GraphModule, aot_inputs: list[Any], is_inference: bool = False) -> Callable[..., Any]:
            return _recorded(
                aot_module,
                aot_inputs,
                num_fw_fixed_arguments(inputs, len(aot_inputs)),
                is_backward=False,
                is_inference=is_inference,
            )

        def backward(aot_module: GraphModule, aot_inputs: list[Any]) -> Callable[..., Any]:
            return _recorded(aot_module, aot_inputs, count_tangents(aot_module), is_backward=True, is_inference=False)

        return aot_autograd(
            fw_compiler=forward,
            bw_compiler=backward,
            inference_compiler=functools.partial(forward, is_inference=True),
            keep_inference_input_mutations=False,
        )(graph_module, example_inputs)


register("cudagraphs")(_CudaGraphs())


def _recorded(
    aot_module: GraphModule, aot_inputs: list[Any], fixed: int, *, is_backward: bool, is_inference: bool
) -> Callable[..., Any]:
    from ..torch_ports.inductor import cudagraphify_impl, get_placeholder_info

    devices = _devices(aot_module)
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        topic("graph").info(
            "cudagraphs: a graph on %s is run as it is", ", ".join(sorted(map(str, devices))) or "no device"
        )
        return boxed(aot_module, aot_inputs)
    placeholders = get_placeholder_info(aot_module.graph)
    out = cudagraphify_impl(
        boxed(aot_module, aot_inputs),
        aot_inputs,
        range(fixed),
        device_index=next(iter(devices)).index or 0,
        is_backward=is_backward,
        is_inference=is_inference,
        stack_traces=_stack_traces(aot_module),
        placeholders=placeholders,
        mutated_input_idxs=_written(aot_module),
    )
    out._boxed_call = True
    return out


def _devices(module: GraphModule) -> set[torch.device]:
    values = (leaf for node in module.graph.nodes for leaf in tree_leaves(node.meta.get("val")))
    return {value.device for value in values if isinstance(value, torch.Tensor)}


def _stack_traces(module: GraphModule) -> list[str | None]:
    output = next(node for node in module.graph.nodes if node.op == "output")
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else (output.args[0],)
    return [node.stack_trace if isinstance(node, torch.fx.Node) else None for node in results]


def _written(module: GraphModule) -> set[int]:
    """The numbers of the inputs that operations of the graph write to."""
    places = {node: i for i, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    found = set()
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for i, argument in enumerate(schema.arguments if schema is not None else ()):
            value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write and value in places:
                found.add(places[value])
    return found

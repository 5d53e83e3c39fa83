"""Outputs of a graph that Inductor compiles have memory of their own.

Inductor drops copies, and lets an operation write into an input where the graph ends by copying its result there.
Together, a graph that writes to an input and returns a copy of it would return the input itself; and one that
returns two copies of one value, one tensor twice.  This pass runs between the two and puts a copy where one is
needed.  torch.compile has the defect where it captures the same graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from ..torch_ports.inductor import custom_graph_pass
from ..torch_ports.operators import OpOverload
from .layers.layer_calls import separate_results

_COPY = torch.ops.aten.copy_.default
_CLONE = torch.ops.aten.clone.default
# torch 2.11 has the plain one only
_Pass: Any = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", custom_graph_pass.CustomGraphPass)


class OwnMemory(_Pass):
    """Copies of what a graph returns and also writes to an input, or returns twice where no backward follows."""

    def __call__(self, graph: Graph, is_inference: bool = False) -> None:
        separate_results(graph)
        output = graph.output_node()
        if not isinstance(output.args[0], (tuple, list)):  # a body of a loop
            return
        taken = {
            _base(node.args[1])
            for node in graph.find_nodes(op="call_function", target=_COPY)
            if _base(node.args[0]).op == "placeholder"
        }
        returned: list[Any] = []
        for value in output.args[0]:
            if (
                isinstance(value, Node)
                and isinstance(value.meta.get("val"), torch.Tensor)
                and value.op != "placeholder"
                and (_base(value) in taken or is_inference and value in returned)
            ):
                with graph.inserting_before(output):
                    copy = graph.call_function(_CLONE, (value,))
                copy.meta.update(value.meta)
                value = copy
            returned.append(value)
        output.args = (type(output.args[0])(returned),)

    def uuid(self) -> str:
        """A part of the key under which Inductor keeps compiled graphs: those compiled without framelift have other
        kernels (raising_kernels.py).
        """
        return "framelift own memory 3, raising kernels 1, written inputs 3"


def _base(node: Any) -> Any:
    """The value that a value is a view of."""
    while isinstance(node, Node) and node.op == "call_function" and isinstance(node.target, OpOverload):
        first = node.target._schema.arguments[:1]
        if (
            not first
            or first[0].alias_info is None
            or first[0].alias_info.is_write
            or not isinstance(node.args[0], Node)
        ):
            return node
        node = node.args[0]
    return node

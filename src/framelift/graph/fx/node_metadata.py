"""What TorchDynamo's graphs say of themselves and of their nodes, for backends that read it: sources of inputs, example
values, source functions, names of parameters, and what the nodes of a captured GraphModule said.
"""

from __future__ import annotations

import types
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.graph_module import GraphModule

from ..._core import is_a
from ..metadata.facts import Facts
from .source_names import Source, source_text, state_name

__all__ = ["carry_over", "describe", "fill_examples"]


def describe(
    module: GraphModule, arguments: Sequence[Any], memo: Mapping[int, Any], root: types.CodeType, compile_id: Any
) -> None:
    """Write what is known without values.  `memo` has a record with the origin of each object that was met."""
    names: dict[str, Source] = {}
    for node, given in zip(module.graph.find_nodes(op="placeholder"), arguments):
        record = memo.get(id(given)) if is_a(given, torch.Tensor) else None
        if record is None:  # AOTAutograd asks each input, numbers too
            node._dynamo_source = None
            continue
        node._dynamo_source = Source(source_text(record.origin, root))
        name = state_name(record.origin, root)
        if name:
            names[name] = node._dynamo_source
    for node in module.graph.nodes:
        if node.op in ("call_function", "call_method"):
            modules = node.meta.get("nn_module_stack")
            last = next(reversed(modules.values()))[1] if modules else node.target
            of_module = last if type(last) is type and last.__module__.startswith("torch.nn.") else node.target
            node.meta["source_fn_stack"] = [(node.name, of_module)]
    flat = {"L__self___" + name.replace(".", "_"): name for name in names}
    module.meta.update(
        dynamo_flat_name_to_original_fqn=flat,
        dynamo_compile_id=compile_id,
        backend_id=f"__compiled_fn_{compile_id.frame_id if compile_id is not None else 0}_{uuid.uuid4().hex}",
    )
    module._param_name_to_source = names


def fill_examples(module: GraphModule, mode: FakeTensorMode) -> None:
    """A fake of each node's value, in the mode that the backend's other fakes are of."""
    for node in module.graph.nodes:
        facts = node.meta["tensor_facts"][0] if "tensor_facts" in node.meta else None
        if "example_value" in node.meta or not is_a(facts, Facts) or facts.stride is None:
            continue
        try:
            with mode, torch.no_grad():
                made = torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device=facts.device)
                if facts.requires_grad and (facts.dtype.is_floating_point or facts.dtype.is_complex):
                    made.requires_grad_()
        except (RuntimeError, TypeError, NotImplementedError):  # of a layout that has no strides
            continue
        node.meta["example_value"] = made


#: what only the new graph knows
_OWN = frozenset({"tensor_facts", "tensor_dict", "example_value", "effect", "stack_trace", "nn_module_stack"})


def carry_over(module: GraphModule, original: Any) -> None:
    """What nodes of a GraphModule that was compiled said goes to the nodes of its graph, where these are the same."""
    if not is_a(original, GraphModule):
        return
    ops = ("call_function", "call_method", "output")
    new = [node for node in module.graph.nodes if node.op in ops]
    old = [node for node in original.graph.nodes if node.op in ops]
    if [node.op for node in new] != [node.op for node in old]:
        return
    for node, before in zip(new, old):
        node.meta.update({key: value for key, value in before.meta.items() if key not in _OWN})
    inputs, outer = module.graph.find_nodes(op="placeholder"), original.graph.find_nodes(op="placeholder")
    if len(inputs) == len(outer):
        for node, before in zip(inputs, outer):
            node.meta.update({key: value for key, value in before.meta.items() if key not in _OWN})

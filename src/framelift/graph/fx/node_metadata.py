"""Metadata of TorchDynamo's graphs and their nodes, for backends that read it.

Sources of inputs, example values, source functions, names of parameters, and the metadata of the nodes of a captured
GraphModule.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..._core import id, is_a
from ...torch_ports.fakes import FakeTensorMode
from ...vocabulary.plain_types import GIVEN
from ...vocabulary.reasons import Interrupt
from ..metadata.facts import Facts
from ..metadata.wrappers import WrapperFacts, assembled
from .named_places import InputSource, NamedPlaces, source_text, state_name


def describe(
    module: GraphModule, arguments: Sequence[Any], memo: Mapping[int, Any], places: NamedPlaces, compile_id: Any
) -> None:
    """Write what is known without values.  `memo` has a record with the origin of each object that was met."""
    names: dict[str, InputSource] = {}
    for node, given in zip(module.graph.find_nodes(op="placeholder"), arguments):
        record = memo.get(id(given)) if is_a(given, GIVEN) else None
        if record is None:  # AOTAutograd asks each input, numbers too
            node._dynamo_source = None
            continue
        node._dynamo_source = InputSource(source_text(record.origin, places))
        name = state_name(record.origin, places)
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


def fill_examples(module: GraphModule, mode_of: Callable[[], FakeTensorMode | None]) -> None:
    """Each node can be asked for a fake of its value, in the mode that the backend's other fakes are of."""
    modes: list[FakeTensorMode] = []

    def mode() -> FakeTensorMode:
        if not modes:  # a backend that is over has no mode any more
            modes.append(mode_of() or FakeTensorMode())
        return modes[0]

    for node in module.graph.nodes:
        facts = node.meta["tensor_facts"][0] if "tensor_facts" in node.meta else None
        if "example_value" not in node.meta and is_a(facts, Facts) and facts.stride is not None:
            node.meta = Meta(node.meta, functools.partial(_example, facts, mode))


def _example(facts: Facts, mode: Callable[[], FakeTensorMode]) -> torch.Tensor | None:
    assert facts.stride is not None
    try:
        if type(facts) is WrapperFacts:
            parts = {name: _example(part.facts, mode) for name, part in facts.parts.items()}
            return (
                None
                if None in parts.values()
                else assembled(facts.kind, parts, facts.context, facts.size, facts.stride)
            )
        with mode(), torch.no_grad():
            made = torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device=facts.device)
            return made.requires_grad_() if facts.requires_grad and _has_gradients(facts.dtype) else made
    except (RuntimeError, TypeError, NotImplementedError, Interrupt):  # of a layout that has no strides
        return None


def _has_gradients(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


class Meta(dict[str, Any]):
    """The metadata of a node. Its example value is made when it is read: most backends never do."""

    __slots__ = ("_make",)

    def __init__(self, known: Mapping[str, Any], make: Callable[[], Any]) -> None:
        super().__init__(known)
        self._make: Callable[[], Any] | None = make

    def _filled(self) -> Meta:
        make, self._make = self._make, None
        if make is not None and not dict.__contains__(self, "example_value") and (made := make()) is not None:
            dict.__setitem__(self, "example_value", made)
        return self

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._filled() if key == "example_value" else self, key)

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._filled() if key == "example_value" else self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return dict.get(self._filled() if key == "example_value" else self, key, default)

    def __copy__(self) -> dict[str, Any]:
        """fx copies nodes with what they say: the copy is asked in the same way."""
        plain = dict(dict.items(self))
        return plain if self._make is None else Meta(plain, self._make)

    def copy(self) -> dict[str, Any]:
        return self.__copy__()

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._filled())

    def __bool__(self) -> bool:
        return True  # asked for each node by torch.fx, which then reads some other key

    def __len__(self) -> int:
        return dict.__len__(self._filled())

    def keys(self) -> Any:
        return dict.keys(self._filled())

    def values(self) -> Any:
        return dict.values(self._filled())

    def items(self) -> Any:
        return dict.items(self._filled())

    def pop(self, key: str, *default: Any) -> Any:
        return dict.pop(self._filled(), key, *default)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(dict.items(self._filled())),)


#: what only the new graph knows
_OWN = frozenset({"tensor_facts", "tensor_dict", "example_value", "effect", "stack_trace", "nn_module_stack"})


def carry_over(module: GraphModule, original: Any) -> None:
    """Copy the metadata of a compiled GraphModule's nodes to the nodes of its graph, where these are the same."""
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

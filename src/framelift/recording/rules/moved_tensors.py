"""Tensors made inside that get other memory (`set_`), or another place in their own (`as_strided_`).

Each is the result of that step from then on.

The graph has the step in its place.  Autograd would keep a history that no longer fits, so there must be none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...graph.fx.targets import target_of
from ...graph.fx.values import Value
from ...graph.metadata.facts import Facts
from ...torch_ports.tensors import TensorBase
from ...vocabulary.reasons import Interrupt
from .ranks import rule
from .special_cases import strided_arguments

if TYPE_CHECKING:
    from ..session import Recorder


def _check(recorder: Recorder, value: Value, name: str) -> None:
    if (
        value.external is not None
        or value.view
        or value.storage.external
        or value.facts.requires_grad
        or type(value.facts) is not Facts
        or recorder.in_transform()
        or recorder.wrapped is not None
        or recorder.tape_is_a_body()
        or torch.is_inference_mode_enabled()
    ):
        raise Interrupt("torch-operation", f"{name} of an input, a view, or a tensor with a history")


@rule(torch.Tensor.set_, TensorBase.set_)
def _set(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.set_(source)`; sources that are no tensors, and places in them, are left to eager mode."""
    if len(args) != 2 or kwargs or not all(map(recorder.is_stand_in, args)):
        raise Interrupt("tensor-data", "Tensor.set_")
    value, source = map(recorder.value_of, args)
    _check(recorder, value, "Tensor.set_")
    alike = value.facts.dtype is source.facts.dtype and value.facts.device == source.facts.device
    # compilers have no views of memory that a tensor no longer has
    viewed = len(value.storage.values) > 1 and not recorder.runs_as_is()
    if source.facts.requires_grad or type(source.facts) is not Facts or not alike or viewed:
        raise Interrupt("torch-operation", "Tensor.set_ to this tensor")
    return recorder.move(target_of(torch.Tensor.set_), args, source, source.facts)


@rule(torch.as_strided_, torch.Tensor.as_strided_, TensorBase.as_strided_)
def _as_strided(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = strided_arguments(recorder, args, kwargs)
    value = recorder.value_of(given[0])
    _check(recorder, value, "Tensor.as_strided_")
    if any(type(number) is not int for number in (*given[1], *given[2])):
        raise Interrupt("torch-operation", "Tensor.as_strided_ by symbolic numbers")
    facts = value.facts.but(size=torch.Size(given[1]), stride=tuple(given[2]))
    return recorder.move(target_of(torch.Tensor.as_strided_), given, value, facts)

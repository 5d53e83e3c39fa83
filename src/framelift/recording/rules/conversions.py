"""Questions of `Module.to` and its like before they convert a tensor, answered by the facts of stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...graph.metadata.facts import Facts
from ...torch_ports.tensors import has_compatible_shallow_copy_type, parse_to
from ...vocabulary.reasons import Interrupt
from .ranks import rule

if TYPE_CHECKING:
    from ..session import Recorder


@rule(parse_to)
def _parse_to(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Device, dtype, and how to copy: a tensor among the arguments stands for its own."""
    like = kwargs.get("tensor", args[0] if args else None)
    if recorder.is_stand_in(like):
        facts = recorder.value_of(like).facts
        like = torch.empty(0, dtype=facts.dtype, device="meta")
        found = parse_to(like, *args[1:], **{k: v for k, v in kwargs.items() if k != "tensor"})
        return (facts.device, *found[1:])
    return parse_to(*args, **kwargs)


@rule(has_compatible_shallow_copy_type)
def _may_exchange(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Dense tensors may exchange their memory, wherever they are."""
    given = (*args, *kwargs.values())
    if len(given) != 2 or not all(recorder.is_stand_in(one) and type(_facts(recorder, one)) is Facts for one in given):
        raise Interrupt("torch-operation", "torch._has_compatible_shallow_copy_type of other than dense tensors")
    return True


def _facts(recorder: Recorder, tensor: Any) -> Any:
    return recorder.value_of(tensor).facts

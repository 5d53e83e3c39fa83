"""Questions of `Module.to` and its like before they convert a tensor, answered by the facts of stand-ins."""

from __future__ import annotations

from typing import Any

import torch

from ...graph.fx.targets import Target
from ...graph.metadata.facts import Facts
from ...torch_ports.tensors import has_compatible_shallow_copy_type, parse_to
from ...vocabulary.reasons import Interrupt
from ..session import Recorder
from .ranks import rule


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


# ---- Tensors made of plain data: lists and numbers of Python's.  No tensors are among the data ----


def record_data(recorder: Recorder, target: Target, data: Any) -> Any:
    """A tensor made of data alone.  Its dtype is written out where torch's own implementation of numpy makes it under
    another default dtype than the graph runs under.
    """
    now = torch.get_default_dtype()
    usual = now if recorder.saved is None else recorder.saved.dtype
    if usual is now or recorder.settings.touched:
        return recorder.record(target, (data,), {})
    dtype = target.func(data).dtype
    torch.set_default_dtype(usual)
    try:
        return recorder.record(target, (data,), {"dtype": dtype})
    finally:
        torch.set_default_dtype(now)

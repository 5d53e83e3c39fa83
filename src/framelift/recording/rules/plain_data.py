"""Tensors made of plain data: lists and numbers of Python's.  No tensors are among the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...graph.fx.targets import Target

if TYPE_CHECKING:
    from ..session import Recorder


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

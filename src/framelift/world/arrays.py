"""numpy arrays inside a rehearsal: torch's own implementation of numpy over stand-ins, under numpy's class.

An array from outside is a tensor that shares its memory, so that writes inside are the graph's.  Arrays whose kind a tensor does not
have are opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..origin import Origin
from ..reasons import Interrupt
from .world import World

__all__ = ["Array", "Scalar", "array_over", "import_array", "numpy", "tnp"]

try:
    import numpy
    import torch._numpy as tnp
except ImportError:
    numpy = tnp = None   # type: ignore[assignment]

_Base: Any = object if tnp is None else tnp.ndarray


class Array(_Base):  # type: ignore[misc]
    """What captured code sees for an array."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return numpy.ndarray

    def _taken(self) -> Any:
        """C code asks for the number: torch's operators too, before they say whose call it is."""
        raise Interrupt("tensor-item", f"numpy.{self.__class__.__name__}")

    __index__ = __int__ = __float__ = __complex__ = _taken

    def __getattr__(self, name: str) -> Any:
        if hasattr(self.__class__, name):
            raise Interrupt("unknown-callable", f"numpy.{name}")
        raise AttributeError(f"'numpy.{self.__class__.__name__}' object has no attribute {name!r}", name=name, obj=self)


class Scalar(Array):
    """What captured code sees where numpy gives a scalar of its own and torch's implementation an array without dimensions."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return numpy.dtype(str(object.__getattribute__(self, "tensor").dtype).removeprefix("torch.")).type


def array_over(tensor: torch.Tensor, kind: type = Array) -> Any:
    """An array over a stand-in."""
    made = object.__new__(kind)
    object.__setattr__(made, "tensor", tensor)
    return made


def as_tensor(array: Any) -> torch.Tensor:
    """The tensor over an array's memory."""
    return torch.from_numpy(array)


def _is_plain(array: Any) -> bool:
    return type(array) is numpy.ndarray and array.flags.writeable and array.dtype.isnative


def import_array(world: World, value: Any, origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> Any:
    """An array from outside as captured code sees it; None where a tensor cannot stand for it."""
    known = [record.original for record in world.memo.values() if type(record.original) is numpy.ndarray]
    if not _is_plain(value) or any(numpy.may_share_memory(value, other) for other in known):
        return None
    try:
        tensor = as_tensor(value)
    except (TypeError, ValueError):   # a dtype or layout that tensors do not have
        return None
    world.keep.append(tensor)
    world.guard(origin, "CHECK", (_is_plain, "is a plain array"), "plain")
    place = origin.to("ask", as_tensor)
    seen = let_in(world, tensor, place)
    world.distinct.remove(place)   # made at each look, so that it has no identity; the arrays have
    return world.register(value, array_over(seen), origin)



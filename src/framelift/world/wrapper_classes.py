"""What operations on wrapper subclasses may depend on beside the tensors: the methods of the class, and constants that their code names.

These methods run below the torch API, unwatched: at capture over fakes, and with some compilers never again.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ..origin import const
from .leaves import is_leaf
from .world import ABSENT, World

__all__ = ["note_wrapper_class"]

_METHODS = ("__torch_dispatch__", "__torch_function__", "__tensor_flatten__", "__tensor_unflatten__", "__new__", "__init__")


def note_wrapper_class(world: World, kind: type) -> None:
    """Guard the methods of a wrapper class, and the constants among the globals that they name."""
    for name in _METHODS:
        found = world.lookup(kind, name)
        function = getattr(found, "__func__", found) if found is not ABSENT else None
        if type(function) is not types.FunctionType or kind.__module__.startswith("torch."):
            continue
        known = function.__globals__
        for used in dict.fromkeys(_names(function.__code__)):
            if used in known and is_leaf(known[used]):
                world.guard(const(known).to("item", used), "EQ", known[used])


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


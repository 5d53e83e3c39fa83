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
        _note_names(world, kind, function, set())


def _note_names(world: World, kind: type, function: types.FunctionType, met: set[Any]) -> None:
    """Constants of the module and of the class, and those of helpers of the same module."""
    if function in met:
        return
    met.add(function)
    known = function.__globals__
    for used in dict.fromkeys(_names(function.__code__)):
        found = known.get(used)
        if used in known and is_leaf(found):
            world.guard(const(known).to("item", used), "EQ", found)
        elif type(found) is types.FunctionType and found.__globals__ is known:
            world.guard(const(known).to("item", used), "IS", found)
            _note_names(world, kind, found, met)
        own = next((vars(base)[used] for base in kind.__mro__ if used in vars(base) and not base.__module__.startswith("torch.")), None)
        if own is not None and is_leaf(own):
            world.lookup(kind, used)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


"""Attributes of external functions, bound methods, and property, staticmethod and classmethod objects."""

from __future__ import annotations

import types
from typing import Any

from ... import _core
from ..._core import id, is_a
from ...guards.kinds import full_name
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..gateway import let_in
from ..import_rules import let_in_opaque
from ..lazy.instance_dict import InstanceDict
from ..lazy.view import View
from ..records import ABSENT, DELETED
from ..world import World
from .instances import VALUE, leaf_attribute

_NAMES = frozenset({"__name__", "__module__"})
_TEXTS = frozenset({"__name__", "__qualname__"})
_READ_ONLY = frozenset({"__globals__", "__closure__", "__builtins__"})
# the flags of code that makes a generator or the like, which takes the function's name from C
_GENERATING = 0x20 | 0x80 | 0x200
_FUNCTION_LEAVES = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__"}
)


def read_function(world: World, function: Any, name: str) -> Any:
    """`f.name` for an external function (or property, staticmethod, classmethod object)."""
    if name == "__code__" and _core.is_internal(function):
        world.shows_places = True
        return function.__code__
    root = world.functions.origins.get(id(function)) or const(function)
    own = getattr(function, "__dict__", None)
    pending = world.overlay.get((id(function), name), ABSENT)
    if pending is not ABSENT and pending is not DELETED:
        return pending
    if pending is DELETED:
        raise _no_attribute(function, name)
    if own is not None and name in own:
        value = let_in(world, own[name], root.to("dict").to("item", name))
        _core.know(function, name, VALUE, value)
        return value
    if own is not None and type(function) is not types.FunctionType and not hasattr(type(function), name):
        world.guard(root.to("dict"), "ABSENT", name, name)
        return getattr(function, name)  # raises
    if name in _FUNCTION_LEAVES:
        return leaf_attribute(world, function, name)
    if name == "__code__":
        world.shows_places = True
        world.guard(root, "CODE", function.__code__)
        return function.__code__
    if name in ("__wrapped__", "__func__", "fget", "fset", "fdel", "__isabstractmethod__") and hasattr(function, name):
        return let_in(world, getattr(function, name), root.to("attr", name))
    if name in ("__get__", "__call__", "__class__", "__eq__", "__hash__", "setter", "getter", "deleter"):
        return getattr(function, name)
    if name == "__dict__" and own is not None:
        return InstanceDict.of(world, function)
    if name in ("__globals__", "__closure__", "__builtins__"):
        return let_in_opaque(world, getattr(function, name), root.to("attr", name), detail=f"function.{name}")
    if own is not None:
        world.guard(root.to("dict"), "ABSENT", name, name)
    return getattr(function, name)


def _no_attribute(function: Any, name: str) -> AttributeError:
    kind = full_name(type(function)).removeprefix("builtins.")
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=function)


def write_function(world: World, function: Any, name: str, value: Any) -> None:
    """`f.name = value` for an external function: pending.  Of CPython's own attributes, those that no C code reads."""
    if name in _READ_ONLY or name in _TEXTS and not is_a(value, str):
        setattr(function, name, value)  # raises, in CPython's own words
    if (
        name.startswith("__")
        and (name not in _NAMES or type(value) is not str)
        or name == "__name__"
        and function.__code__.co_flags & _GENERATING
    ):
        raise Interrupt("effect-object", f"{function.__qualname__}.{name}")
    world.overlay[(id(function), name)] = value
    world.write("setattr", function, name, value)
    _core.know(function, name, VALUE, value)


def delete_function(world: World, function: Any, name: str) -> None:
    """`del f.name` for an external function: pending."""
    if name in _READ_ONLY or name in _TEXTS or name == "__code__":
        delattr(function, name)  # raises, in CPython's own words
    if name.startswith("__"):
        raise Interrupt("effect-object", f"del {function.__qualname__}.{name}")
    pending = world.overlay.get((id(function), name), ABSENT)
    if pending is DELETED:
        raise _no_attribute(function, name)
    if pending is ABSENT:
        read_function(world, function, name)  # raises where there is nothing to delete
    world.overlay[(id(function), name)] = DELETED
    world.write("delattr", function, name, None)
    _core.forget(function, name)


def read_method(world: World, method: types.MethodType, name: str) -> Any:
    """`m.name` for a bound method: what methods have themselves, else the function's."""
    if issubclass(type(method.__self__), View):
        return _read_view_method(method, name)
    # not what the class itself has, as its name
    if name != "__doc__" and _core.type_lookup(types.MethodType, name, None) is not None:
        return getattr(method, name)
    return _core.read(method.__func__, name)


def _read_view_method(method: Any, name: str) -> Any:
    """The same for a method of a view: outside it is one of C code."""
    if name in ("__self__", "__name__", "__call__"):
        return getattr(method, name)
    if name == "__class__":
        return types.BuiltinFunctionType
    if hasattr(getattr(method.__self__.builtin_type(), method.__name__, method), name):
        raise Interrupt("opaque-object", f"a built-in method's {name}")
    raise AttributeError(f"'builtin_function_or_method' object has no attribute {name!r}", name=name, obj=method)

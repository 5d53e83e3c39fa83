"""Recipes of callables created inside: functions with their cells, bound methods, partials, descriptors' wrappers.

A function keeps its code, globals and name; cells are objects of their own, so functions that shared a variable
share it again.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from ..boundary.becomes.arrays import Array
from ..boundary.lazy.view import View
from ..vocabulary.class_reads import members_of, mro_of, name_of
from ..vocabulary.reasons import Interrupt
from .containers import display
from .recipe import Node, Recipe, Text, Walk, exact, type_name
from .typefacts import is_shared, lookup

#: what a new function gets from its code and globals, and what may have been set since
_LATER: tuple[str, ...] = ("__qualname__", "__module__", "__doc__", "__kwdefaults__")
if hasattr(types.FunctionType, "__type_params__"):
    _LATER += ("__type_params__",)


@exact(types.FunctionType)
def _function(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    code = walk.constant(of.__code__, f"code_of_{of.__code__.co_name}")
    start: Text = (
        walk.constant(types.FunctionType, "FunctionType"),
        "(",
        code,
        ", ",
        _globals(walk, of),
        ", ",
        walk.part(of.__name__),
    )
    closure = display(walk, of.__closure__) if of.__closure__ else ()
    shell = (*start, *((", None, ", *closure) if closure else ()), ")")
    fills = [(node, f".{name} = ", walk.part(value)) for name, value in _set_later(of)]
    if of.__defaults__ is None:
        return Recipe(None if fills else shell, shell, tuple(fills))
    defaults = walk.part(of.__defaults__)
    make = None if fills else (*start, ", ", defaults, *((", ", *closure) if closure else ()), ")")
    return Recipe(make, shell, ((node, ".__defaults__ = ", defaults), *fills))


def _set_later(of: types.FunctionType) -> list[tuple[str, Any]]:
    """The attributes in which a function differs from what its constructor would give."""
    trial = types.FunctionType(of.__code__, of.__globals__, of.__name__, None, of.__closure__)
    changed = [(name, getattr(of, name)) for name in _LATER if not _same(getattr(of, name), getattr(trial, name))]
    for name in ("__annotations__", "__dict__"):
        found = getattr(of, name)
        if found or is_shared(found):  # functools.wraps shares annotations
            changed.append((name, found))
    return changed


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) is str and one == other)


def _globals(walk: Walk, function: types.FunctionType) -> str | Node:
    """A function's globals, which must be known to lie outside."""
    found = function.__globals__
    origin = walk.scene.origin_of(found)
    if origin is not None:
        return walk.external(origin)
    name = found.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    if module is None or getattr(module, "__dict__", None) is not found:
        raise Interrupt("result-object", "function with globals made inside")
    return walk.constant(found, f"globals_of_{name}")


@exact(types.CellType)
def _cell(walk: Walk, node: Node) -> Recipe:
    kind = walk.constant(types.CellType, "CellType")
    try:
        contents = node.obj.cell_contents
    except ValueError:
        return Recipe((kind, "()"))
    part = walk.part(contents)
    return Recipe((kind, "(", part, ")"), (kind, "()"), ((node, ".cell_contents = ", part),))


@exact(types.MethodType)
def _method(walk: Walk, node: Node) -> Recipe:
    owner = node.obj.__self__
    if issubclass(type(owner), View):  # outside, a method of the container that the view stands for
        name = node.obj.__func__.__name__
        own = lookup(owner.builtin_type, name)
        return Recipe((walk.constant(own, f"{owner.builtin_type.__name__}_{name}"), ".__get__(", walk.part(owner), ")"))
    if issubclass(type(owner), Array):  # torch's implementation of what numpy has under the same name
        return Recipe((walk.constant(getattr, "getattr"), "(", walk.part(owner), f", {node.obj.__func__.__name__!r})"))
    kind = walk.constant(types.MethodType, "MethodType")
    return Recipe((kind, "(", walk.part(node.obj.__func__), ", ", walk.part(node.obj.__self__), ")"))


@exact(types.BuiltinFunctionType)
def _builtin(walk: Walk, node: Node) -> Recipe:
    """Functions of C modules are constants; methods of built-in containers are taken from the rebuilt container."""
    of = node.obj
    owner = of.__self__
    if owner is None or types.ModuleType in mro_of(type(owner)):
        return Recipe((walk.constant(of, of.__name__),))
    # By way of `super()` it may be of any class of the owner's.
    held = (members_of(cls).get(of.__name__) for cls in mro_of(type(owner)))
    found = next((one for one in held if type(one) is types.MethodDescriptorType and one.__get__(owner) == of), None)
    if found is None:
        raise Interrupt("result-object", f"{type_name(type(owner))}.{of.__name__}")
    method = walk.constant(found, f"{found.__objclass__.__name__}_{of.__name__}")
    return Recipe((method, ".__get__(", walk.part(owner), ")"))


@exact(property)
def _property(walk: Walk, node: Node) -> Recipe:
    of = node.obj
    kind = walk.constant(property, "property")
    parts = [walk.part(f) for f in (of.fget, of.fset, of.fdel)]
    make: Text = (kind, "(", parts[0], ", ", parts[1], ", ", parts[2])
    if property(of.fget, of.fset, of.fdel).__doc__ is not of.__doc__:
        make += (", ", walk.part(of.__doc__))
    return Recipe((*make, ")"))


@exact(staticmethod, classmethod)
def _wrapper(walk: Walk, node: Node) -> Recipe:
    kind, of = type(node.obj), node.obj
    found, given = vars(of), vars(kind(of.__func__))
    if type(of.__func__) is not types.FunctionType or given.keys() - found.keys() or is_shared(found):
        raise Interrupt("result-object", f"{name_of(kind)} with attributes")
    make = (walk.constant(kind, name_of(kind)), "(", walk.part(of.__func__), ")")
    # They copy the function's names and text when they are made; what was set on either since is set again.
    fills = tuple(
        (node, f".{name} = ", walk.part(value))
        for name, value in found.items()
        if name not in given or given[name] is not value
    )
    return Recipe(None, make, fills) if fills else Recipe(make)

"""Tensor subclasses with methods and properties of their own by the names of torch's: `dim`, `shape`, `softmax`.

Much of torch is Python code that is recorded as one operation: `F.softmax(x)` calls `x.softmax`, `len(x)` calls
`x.dim` and reads `x.shape`.  Where the class of a tensor replaces a name that such code reads, the code itself is
captured instead (`opened_by_class`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from .. import _core
from .._core import id, is_a
from ..boundary.records import ABSENT
from ..graph.metadata.facts import is_overriding
from ..graph.state.patched import replaced_names
from ..vocabulary.class_reads import members_of
from ..vocabulary.reasons import Interrupt
from ..vocabulary.torch_code import is_torch_function

if TYPE_CHECKING:
    from ..boundary.world import World
    from ..recording.session import Session


def opened_by_class(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A torch operation as a function to capture, where an argument's class replaces what it reads; else None."""
    if type(function) is not types.FunctionType:
        return None
    for cls in _classes(args, kwargs):
        # Each name is looked up, so that a method which is put on the class later is noticed.
        if session.lookup(cls, "__getattr__") is not ABSENT or [
            name
            for name in _names_read(function)
            if session.lookup(cls, name) is not _core.type_lookup(torch.Tensor, name, ABSENT)
        ]:
            return opened(function)
    return None


def opened_by_patches(world: World, function: Any) -> Any:
    """The same, where the program replaced a function of torch's that the code finds by name; else None."""
    if type(function) is not types.FunctionType:
        return None
    replaced = replaced_names(world.overlay)
    if not replaced or replaced.isdisjoint(_mentioned(function)):
        return None
    found = opened(function)
    if found is None:
        raise Interrupt("torch-operation", f"{function.__name__}, which calls a function that the program replaced,")
    return found


def opened_by_attributes(world: World, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same, where a tensor itself has an attribute that hides a method which the code calls; else None."""
    if type(function) is not types.FunctionType:
        return None
    rest = [*args, *kwargs.values()]
    for arg in rest:
        if type(arg) is list or type(arg) is tuple:
            rest.extend(arg)
        if not is_a(arg, torch.Tensor):
            continue
        record = world.by_seen.get(id(arg))
        own: Any = ()
        if record is not None:
            own = _core.own_dict(record.original) or ()
            for name in _methods_read(function):
                if name not in own:
                    world.guard_method(record.origin, name)
        if not own and not world.overlay:
            continue
        if any(name in own or (id(arg), name) in world.overlay for name in _methods_read(function)):
            return opened(function)
    return None


def _classes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[type]:
    found: list[type] = []
    rest = [*args, *kwargs.values()]
    for arg in rest:
        if type(arg) is list or type(arg) is tuple:
            rest.extend(arg)
        elif is_a(arg, torch.Tensor) and is_overriding(type(arg)) and not any(type(arg) is one for one in found):
            found.append(type(arg))
    return found


@functools.cache
def _names_read(function: types.FunctionType) -> tuple[str, ...]:
    """The names of Tensor's that are among the names in a function of torch's, or in one that it calls."""
    return tuple(name for name in _mentioned(function) if _core.type_lookup(torch.Tensor, name, None) is not None)


@functools.cache
def _methods_read(function: types.FunctionType) -> tuple[str, ...]:
    """Those of them that an attribute of a tensor may hide, and whose guard says so: methods."""
    methods = (types.FunctionType, types.MethodDescriptorType)
    return tuple(name for name in _names_read(function) if type(_core.type_lookup(torch.Tensor, name, None)) in methods)


@functools.cache
def _mentioned(function: types.FunctionType) -> tuple[str, ...]:
    """The names in a function of torch's, and in those that it calls."""
    names: dict[str, None] = {}
    functions, seen = [function], {function}
    for one in functions:
        for code in _codes(one.__code__):
            names.update(dict.fromkeys(code.co_names))
        for called in _called(one):
            if called not in seen:
                seen.add(called)
                functions.append(called)
    return tuple(names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _codes(constant)


def _called(function: types.FunctionType) -> Iterator[types.FunctionType]:
    """Functions of torch's that a function mentions: as globals, in its closure, and as methods of Tensor."""
    held = [function.__globals__.get(name) for name in function.__code__.co_names]
    held += [cell.cell_contents for cell in function.__closure__ or ()]
    spaces = [members_of(torch.Tensor), vars(torch), vars(torch.nn.functional), vars(torch.functional)]
    held += [space.get(name) for space in spaces for name in function.__code__.co_names]
    for one in held:
        if _is_opened(one):
            yield one


_OPENED = ("torch.nn.functional", "torch.functional", "torch._tensor")


def _is_opened(function: Any) -> TypeGuard[types.FunctionType]:
    return is_torch_function(function) and function.__module__ in _OPENED


@functools.cache
def opened(function: types.FunctionType) -> types.FunctionType | None:
    """A Python function of torch's that is an operation, as captured code: a copy with code of its own."""
    return with_own_code(function) if _is_opened(function) else None


def with_own_code(function: types.FunctionType) -> types.FunctionType:
    """The function with a copy of its code, which no table knows: captured code."""
    code = function.__code__
    made = types.FunctionType(
        code.replace(co_name=f"{code.co_name} "),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made

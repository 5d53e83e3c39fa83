"""Immutable objects of C types that are not leaves: they are themselves inside, and guarded by what makes them equal.

Instances of Python classes over a built-in value are here too: handles whose value is guarded.
"""

from __future__ import annotations

import datetime
import functools
import re
import typing
from collections.abc import Callable
from typing import Any

from ... import _core
from ...guards.checks import check, is_made_of
from ...guards.equality import PARTS, indistinguishable
from ...vocabulary.class_reads import mro_of
from ...vocabulary.origins import Origin
from ...vocabulary.shown_values import shown_value
from ..world import World
from .leaves import is_leaf


def import_value(world: World, value: Any, origin: Origin) -> Any:
    """The object itself, guarded by what a program can tell of it; None where that is not known enough."""
    cls = type(value)
    parts = PARTS[cls](value)
    if parts is None or not is_leaf(parts if cls is not re.Match else parts[1:]):
        return None
    world.guard(origin, "CHECK", (functools.partial(is_made_of, cls, parts), f"is {shown_value(value)}"))
    return world.register(value, value, origin, mutable=False)


def import_constant(world: World, value: Any, origin: Origin) -> Any:
    """An object of a C type that the program declares to be immutable: itself, by its identity."""
    world.guard(origin, "IS", value)
    return world.register(value, value, origin, mutable=False)


#: built-in types of values -> the plain value inside an instance of a subclass
_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
    str: lambda value: str.__getitem__(value, slice(None)),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}


def value_kind(cls: type) -> type | None:
    """The built-in type of values that a Python class is made over, if it is."""
    return next((base for base in mro_of(cls) if base in _PLAIN), None)


def _fields(kind: type, names: str) -> Callable[[Any], Any]:
    """Return what gives fields of an instance, whatever a subclass has under their names."""
    reads = [vars(kind)[name].__get__ for name in names.split()]
    return lambda value: tuple([read(value) for read in reads])


#: built-in immutable types that a class of the program may be made over -> the plain values that an instance carries
_CARRIED: dict[type, Callable[[Any], Any]] = {
    **_PLAIN,
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    frozenset: lambda value: tuple(frozenset.__iter__(value)),
    datetime.date: _fields(datetime.date, "year month day"),
    datetime.datetime: _fields(datetime.datetime, "hour minute second microsecond fold tzinfo"),
    datetime.time: _fields(datetime.time, "hour minute second microsecond fold tzinfo"),
    datetime.timedelta: _fields(datetime.timedelta, "days seconds microseconds"),
}


def carried_values(value: Any) -> tuple[Any, ...] | None:
    """Return what an object carries for good in the built-in classes under its own, as leaves.

    None where one of these classes is not known, or where what it carries may change.
    """
    found = []
    for base in mro_of(type(value)):
        if base in (object, typing.Generic) or _core.is_python_class(base):
            continue
        carried = _CARRIED[base](value) if base in _CARRIED else None
        if carried is None or not is_leaf(carried):
            return None
        found.append(carried)
    return tuple(found)


@check
def _holds(kind: type, before: Any, now: Any) -> bool:
    return issubclass(type(now), kind) and indistinguishable(_PLAIN[kind](now), before)


def plain_value(world: World, value: Any, kind: type, origin: Origin) -> None:
    """Guard the built-in value inside an instance."""
    before = _PLAIN[kind](value)
    world.guard(origin, "CHECK", (functools.partial(_holds, kind, before), f"== {shown_value(before)}"), "value")

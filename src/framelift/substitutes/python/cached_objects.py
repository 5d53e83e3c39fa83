"""Objects that may change and that an external functools.lru_cache keeps from now on: how they look, where they are.

Captured code made such an object; the cache will hold the one that the entry's call of the cache makes.  Both look the
same, and nobody has changed the latter: the guard on the cache says so at each call.  An object that leaves is the
cache's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import id, is_a
from ...boundary.becomes.leaves import holds_nan, is_constant, is_leaf
from ...boundary.records import KeptPart, KeptResult
from ...graph.symbols.numbers import NUMBERS
from ...guards.equality import indistinguishable
from ...higher_order.bodies import contents_of, portrait_of
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session

ASKED = "named call"  # the effect by which the entry asks a cache


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An object that may change, or holds one: its class, the names or keys of its parts, and these."""

    kind: type
    names: tuple[Any, ...]
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Again:
    """An object that was met before, by its number."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class _Itself:
    """A function, a class, or an object of the outside."""

    value: Any


class CannotSee(Exception):
    """A value that cannot be compared with another one without running code of the program."""


#: type of containers -> the keys of their parts, where they have some, and the parts
_CONTAINERS: dict[type, Callable[[Any], tuple[tuple[Any, ...], tuple[Any, ...]]]] = {
    list: lambda value: ((), tuple(value)),
    tuple: lambda value: ((), value),
    dict: lambda value: (tuple(value), tuple(value.values())),
    torch.Size: lambda value: ((), tuple(value)),  # where its sizes are symbolic
}


class _Plain:
    """As large as an object that has a dictionary and nothing else."""


def _contents(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The names or keys of an object's parts, and these; None where it may hold what cannot be seen."""
    kind = type(value)
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](value)
    if not _core.is_python_class(kind) or kind.__basicsize__ != _Plain.__basicsize__:
        return None
    table = _core.own_dict(value)
    return _CONTAINERS[dict](table) if type(table) is dict else None


def picture_of(session: Session, value: Any) -> Picture | None:
    """How an object made inside looks; None where that cannot be compared with another one later."""
    try:
        picture = _picture(session, value, {}, None)
    except CannotSee:
        return None
    return picture if type(picture) is Picture else None


def picture_with_numbers(session: Session, value: Any, number: Callable[[Any], Any]) -> Any:
    """The same for any value, with what `number` gives in place of symbolic numbers; raises CannotSee."""
    return _picture(session, value, {}, number)


def filled(picture: Any, number: Callable[[Any], Any]) -> Any:
    """A picture, with what `number` gives in place of each of its parts."""
    if type(picture) is Picture:
        return Picture(picture.kind, picture.names, tuple([filled(part, number) for part in picture.parts]))
    return number(picture)


def _picture(session: Session, value: Any, seen: dict[int, int], number: Callable[[Any], Any] | None) -> Any:
    if number is not None and type(value) in NUMBERS:
        return number(value)
    if is_leaf(value) and not (type(value) is torch.Size and any(type(size) in NUMBERS for size in value)):
        if holds_nan(value):
            raise CannotSee
        return value
    if id(value) in seen:
        return _Again(seen[id(value)])
    if is_constant(value) and not _core.is_internal(value):
        return _Itself(value)
    shadow = session.world.shadow_ids.get(id(value))
    if shadow is not None:
        return _Itself(shadow.original)
    if session.recorder.is_stand_in(value) or type(value) in NUMBERS or is_a(value, BaseException):
        raise CannotSee
    if _core.is_external(value):
        return _Itself(value)
    contents = _contents(value)
    if contents is None or not all(map(is_leaf, contents[0])):
        raise CannotSee
    seen[id(value)] = len(seen)
    return Picture(type(value), contents[0], tuple([_picture(session, part, seen, number) for part in contents[1]]))


def looks_as(picture: Any, found: Any) -> bool:
    """Return whether an object looks as in the picture."""
    return _looks_as(picture, found, [])


def _looks_as(picture: Any, found: Any, seen: list[Any]) -> bool:
    kind = type(picture)
    if kind is _Again:
        return found is seen[picture.number]
    if kind is _Itself:
        return found is picture.value
    if kind is not Picture:
        return is_leaf(found) and bool(indistinguishable(found, picture))
    if type(found) is not picture.kind:
        return False
    seen.append(found)
    contents = _contents(found)
    if contents is None or len(contents[1]) != len(picture.parts):
        return False
    if not all(map(is_leaf, contents[0])) or not indistinguishable(contents[0], picture.names):
        return False
    return all([_looks_as(one, part, seen) for one, part in zip(picture.parts, contents[1])])


def has_changes(session: Session) -> bool:
    """Return whether captured code has changed objects of the outside."""
    world = session.world
    if any(effect.kind != ASKED for effect in world.effects):
        return True
    return any(contents_of(one.copy) != contents_of(one.before) for one in world.shadows)


def keep_objects(session: Session, kept: KeptResult, result: Any) -> None:
    """Hand the objects that such a result consists of over to the cache: they must not change any more."""
    world = session.world
    keep: list[Any] = []
    rows = portrait_of([result], keep)
    world.keep += (keep, kept)
    world.finishing.append(functools.partial(_check_unchanged, rows))
    open_ = [result]
    world.kept_places[id(result)] = kept
    while open_:
        owner = open_.pop()
        contents = _contents(owner)
        if contents is None:
            continue
        names, parts = contents
        for name, part in zip(names or range(len(parts)), parts):
            if not is_leaf(part) and id(part) not in world.kept_places and _is_made_inside(session, part):
                step = f"[{name!r}]" if type(owner) in _CONTAINERS else f".{name}"
                world.kept_places[id(part)] = KeptPart(owner, step)
                open_.append(part)


def _is_made_inside(session: Session, value: Any) -> bool:
    return not _core.is_external(value) and id(value) not in session.world.shadow_ids and not is_constant(value)


def _check_unchanged(rows: list[tuple[Any, tuple[int, ...]]]) -> None:
    for obj, before in rows:
        if contents_of(obj) != before:
            raise Interrupt(
                "unknown-callable", f"functools.lru_cache of a {type(obj).__name__} that is changed, and would stay so"
            )

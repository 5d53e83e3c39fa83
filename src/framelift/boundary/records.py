"""Records of the world about each external object that was imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core import id
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt

ABSENT = object()


@dataclass(slots=True, eq=False)  # not frozen: a capture makes thousands, and those would take three times as long
class External:
    """An external object and what captured code sees in its place.  It is never changed."""

    original: Any
    seen: Any
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """A private copy of an external container.  `before` holds its contents right after import."""

    copy: Any
    original: Any
    origin: Origin
    before: Any


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """One pending write: `kind` is a row in exits/effects.py, `owner` the object as captured code sees it."""

    kind: str
    owner: Any
    key: Any
    value: Any


_OF_ATTRIBUTES = frozenset(("setattr", "delattr", "setdict", "deldict"))


class Journal(list[Effect]):
    """Pending writes in the order of the program; exits merge writes to one place.

    >>> journal = Journal()
    >>> journal.write("setattr", "owner", "name", 1)
    >>> [(one.kind, one.key) for one in journal]
    [('setattr', 'name')]
    """

    def __init__(self) -> None:
        self.viewed: set[int] = set()  # ids of objects of whose attributes a view was taken

    def write(self, kind: str, owner: Any, key: Any, value: Any) -> None:
        """Add a pending write."""
        if kind in _OF_ATTRIBUTES and id(owner) in self.viewed:
            raise Interrupt(
                "effect-object", f"the __dict__ of a {qualname_of(type(owner))}, of which a view was taken,"
            )
        self.append(Effect(kind, owner, key, value))


class Overlay(dict[tuple[int, str], Any]):
    """Pending writes: (id of owner, name) -> value or DELETED.  `names`: of all that were ever written, whoever's; most
    look-ups in classes are for others, and need not ask class by class.
    """

    __slots__ = ("names", "reentered")

    def __init__(self) -> None:
        self.names: set[str] = set()
        # names that were deleted and written again: they are the last of their dictionary
        self.reentered: set[tuple[int, str]] = set()

    def __setitem__(self, place: tuple[int, str], value: Any) -> None:
        self.names.add(place[1])
        dict.__setitem__(self, place, value)


#: kinds of effects that a body of the graph may have, for the entry does them, where this says so of their value
HARMLESS: dict[str, Callable[[Any], bool]] = {}


class _Deleted:
    def __repr__(self) -> str:
        return "<deleted>"


#: the overlay's mark for an attribute, global or cell that captured code deleted
DELETED = _Deleted()

"""Records of the world about each external object that was imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..vocabulary.origins import Origin


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


class Overlay(dict[tuple[int, str], Any]):
    """Pending writes: (id of owner, name) -> value or DELETED.  `names`: of all that were ever written, whoever's; most
    look-ups in classes are for others, and need not ask class by class.
    """

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __setitem__(self, place: tuple[int, str], value: Any) -> None:
        self.names.add(place[1])
        dict.__setitem__(self, place, value)


CACHE_CALL = "cache call"  # the kind of an effect: the entry calls an external functools.lru_cache


@dataclass(frozen=True, slots=True, eq=False)
class CacheCall:
    """A call of an external functools.lru_cache, whose function gives `answer` where none is held.

    `inner`: the effects that are such calls too, made by its function.  `is_plain`: one that is held may do as well.
    `settle` is called with True if not, for the answer, or a part of it, is held by others once the entry ran.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any
    inner: tuple[Effect, ...]
    is_plain: bool
    settle: Callable[[bool], None]


class _Deleted:
    def __repr__(self) -> str:
        return "<deleted>"


#: the overlay's mark for an attribute, global or cell that captured code deleted
DELETED = _Deleted()

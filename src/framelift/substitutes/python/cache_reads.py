"""Reads of a function under an external `functools.lru_cache`, while it was captured.

The entry calls the cache when the frame ran, and what the function reads must be then as it was.

Where such a function is given plain values, what it reads of the outside begins at constants: at its globals, its
closure or its defaults.  Changes of what only the frame's arguments lead to are none of its business.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..._core import id
from ...higher_order.bodies import contents_of
from ...vocabulary.reasons import Interrupt
from .cached_objects import ASKED, Picture

if TYPE_CHECKING:
    from ...boundary.records import Effect
    from ...recording.session import Session
    from ...vocabulary.origins import Origin

#: kinds of effects that change the one object they are about
_OF_OBJECTS = frozenset({"setattr", "delattr", "setdict", "deldict", "append", "add", "setitem", "delitem"})


def stays_as_read(session: Session, given: Iterable[Origin], picture: Any) -> None:
    """Captured code has changed nothing that the function may have read, nor does it until its end.

    `given`: the places of objects that it was given.  `picture`: of its result; another call may find such an object in
    the cache, which its frame's arguments lead to as well.
    """
    of_arguments = not all(map(_is_of_constants, given))
    check = functools.partial(_check, session, of_arguments, picture, len(session.recorder.written))
    check()
    session.world.finishing.append(check)


def _check(session: Session, of_arguments: bool, picture: Any, written: int) -> None:
    reads_all = of_arguments or _reads_by_arguments(session)
    if _changes(session, reads_all, picture) or _writes_tensors(session, reads_all, written):
        stop = Interrupt(
            "unknown-callable",
            "the first call of a function under functools.lru_cache with these arguments, in a frame that changes "
            "objects which the function may read (call it once before, so that the cache holds its result),",
        )
        stop.passes = True  # from the next call on it does
        raise stop


def _reads_by_arguments(session: Session) -> bool:
    """Return whether an object that an argument of the frame leads to was met by way of constants too, or may be."""
    world = session.world
    return bool(world.function_origins) or any(
        guard.kind == "SAME" and _is_of_constants(guard.origin) and not _is_of_constants(guard.value)
        for guard in world.guards
    )


def _is_of_constants(origin: Origin) -> bool:
    while origin.base is not None:
        origin = origin.base
    return bool(origin.step == "const")


def _changes(session: Session, reads_all: bool, picture: Any) -> bool:
    """Return whether captured code has changed objects, of those that the function may read."""
    world = session.world
    for effect in world.effects:
        if effect.kind != ASKED and (reads_all or not _is_elsewhere(session, effect, picture)):
            return True
    return any(
        (reads_all or _is_of_constants(one.origin) or _may_be_kept(picture, type(one.original), one.before))
        and contents_of(one.copy) != contents_of(one.before)
        for one in world.shadows
    )


def _is_elsewhere(session: Session, change: Effect, picture: Any) -> bool:
    """Return whether a change is one of an object that only arguments of the frame lead to."""
    record = session.world.by_seen.get(id(change.owner))
    return (
        change.kind in _OF_OBJECTS
        and record is not None
        and not _is_of_constants(record.origin)
        and not _may_be_kept(picture, type(record.original), None)
    )


def _may_be_kept(picture: Any, kind: type, held: Any) -> bool:
    """Return whether an object in a picture may be one of this class, which holds this."""
    if type(picture) is not Picture:
        return False
    if picture.kind is kind and not (type(held) is dict and picture.names != tuple(held)):
        return True
    return any(_may_be_kept(part, kind, held) for part in picture.parts)


def _writes_tensors(session: Session, reads_all: bool, written: int) -> bool:
    """Return whether external tensors were written since, and the function may have read such: they may share
    memory.
    """
    if not any(value.storage.external for value in session.recorder.written[written:]):
        return False
    return reads_all or any(guard.kind == "TENSOR" and _is_of_constants(guard.origin) for guard in session.world.guards)

"""Texts that show where objects lie in memory: known where these are external objects, whose identity is guarded.

An object made inside lies elsewhere at the next call, and so does a copy of an external one.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.world import ABSENT
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ...vocabulary.shown_addresses import shown_addresses

if TYPE_CHECKING:
    from ...rehearsal.session import Session

__all__ = ["is_known_text", "known_text"]

#: their text shows the name of the object itself, others show that of their class
_NAMED = (types.FunctionType,)


class LiesThere:
    """A check without a written form: a capture that knows an address is good for this process alone."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __call__(self, obj: Any) -> bool:
        return id(obj) == self.address


def known_text(session: Session, text: str) -> str:
    """The text that an f-string or `%` made, where its addresses are known."""
    if not is_known_text(session, text):
        raise Interrupt("unknown-callable", "a text (it shows an address)")
    return text


def is_known_text(session: Session, text: str) -> bool:
    """Whether all addresses that a text shows are those of external objects; they and their names are guarded then."""
    for address in shown_addresses(text) - session.pinned_addresses:
        obj = ABSENT if address is None else _external_at(session, address)
        if obj is ABSENT:
            return False
        _guard_name(obj)
        session.world.guard(const(obj), "CHECK", (LiesThere(id(obj)), "lies where it did"), LiesThere)
        session.pinned_addresses.add(id(obj))
    return True


def _external_at(session: Session, address: int) -> Any:
    """The external object at an address that captured code sees as itself, its identity guarded; ABSENT: none."""
    world = session.world
    record = world.by_seen.get(address)
    if record is not None:
        if record.seen is not record.original or type(record.seen) is types.MethodType:
            return ABSENT
        if record.origin.step != "const":
            world.guard(record.origin, "IS", record.original)
        return record.original
    for guard in world.guards:
        if guard.kind == "IS" and id(guard.value) == address:
            return guard.value
    return ABSENT


def _guard_name(obj: Any) -> None:
    """Names are read by C code when it makes a text."""
    if is_a(obj, _NAMED):
        _core.read(obj, "__qualname__")
    else:
        for name in ("__module__", "__qualname__"):
            _core.read(type(obj), name)

"""Dictionaries that hold an object's attributes: the same thing under two names.

Where a program meets such a dictionary by itself (as an argument, say), what it writes there it must find in the
object, and the other way round.  So it sees the object's view of it; and that other dictionaries are no object's
is guarded where one of the two is written.
"""

from __future__ import annotations

import _thread
import types
from collections.abc import Callable, Iterable
from typing import Any

from ..._core import id, is_a
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt


def own_dict(obj: Any) -> dict[str, Any] | None:
    """The object's instance dictionary, past any `__getattribute__`."""
    if is_a(obj, _thread._local):
        return _thread._local.__getattribute__(obj, "__dict__")  # this thread's
    try:
        found = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return found if is_a(found, dict) else None


class Owners:
    """Which dictionaries are an object's, of the objects that were met, and which were taken for nobody's."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[Any, Origin]] = {}  # by id of the dictionary
        self._nobodys: set[int] = set()
        self._globals: set[int] = set()  # ids of those in which functions look for names

    def met(self, obj: Any, origin: Origin) -> None:
        """An object came in."""
        own = own_dict(obj)
        if own is None:
            return
        if id(own) in self._nobodys:  # the part before a break here knows of no owner, so nothing is noted
            raise Interrupt("effect-object", f"the __dict__ of a {qualname_of(type(obj))}, met before its object,")
        self._owners.setdefault(id(own), (obj, origin))

    def holds_globals(self, table: dict[Any, Any]) -> None:
        """A function found a name in this dictionary, or wrote one to it."""
        if id(table) in self._nobodys:
            raise _of_function()
        self._globals.add(id(table))

    def of(self, table: dict[Any, Any]) -> tuple[Any, Origin] | None:
        """Whose dictionary this is; where nobody is known, it is nobody's from now on."""
        if id(table) in self._globals:
            raise _of_function()
        found = self._owners.get(id(table))
        if found is None:
            self._nobodys.add(id(table))
        return found

    def places(self, written: Callable[[Any], bool], all_written: bool) -> Iterable[Origin]:
        """Where objects keep dictionaries that must not be among others'; `all_written`: one of those was written."""
        if not self._nobodys:
            return ()
        return [
            origin.to("dict")
            for obj, origin in self._owners.values()
            if not is_a(obj, types.ModuleType) and (all_written or written(obj))
        ]


def _of_function() -> Interrupt:
    return Interrupt("effect-object", "a dictionary that captured code sees, and that holds a function's globals,")

"""The classes that one rehearsal met: what their attributes are found to be, and which special methods they have."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from ... import _core
from ..._core import GuardLog, id
from ...graph.symbols.numpy_numbers import SCALARS
from ...guards.checks import check
from ...guards.kinds import dunders
from ...vocabulary.class_reads import flags_of, members_of, module_of, mro_of, names_of, qualname_of
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..becomes.leaves import LEAF_TYPES
from ..dynamism import Dynamism
from ..records import ABSENT, Overlay
from .special_methods import unwatched_method

_HEAP_TYPE = 1 << 9  # the others are made by C code and stay as they are, and so do their bases
_IMMUTABLE_TYPE = 1 << 8  # made by C code, and stays as it is, too


def type_lookup(cls: type, name: str) -> Any:
    """Look up a name in the MRO of an external class, unguarded; ABSENT when there is none."""
    return _core.type_lookup(cls, name, ABSENT)


#: classes whose special methods C code may call unseen: they read nothing that changes
HARMLESS: set[type] = {*LEAF_TYPES}
#: texts that C code makes of instances without a word of their class, or with one that is guarded where it is shown
_WITHOUT_NAME = tuple(kind.__repr__ for kind in (object, type, list, dict, tuple, str, int, float, complex, bytes))
#: what `names_of` reads, and what a metaclass reads it by
_NAMES = ("__module__", "__qualname__", "__name__")
_NAMING = ("__getattribute__", *_NAMES)


@check
def _is_holder(name: str, has: bool, now: type) -> bool:
    return (name in members_of(now)) is has


class KnownClasses:
    """Lookups in external classes, each guarded once, with what was written to them so far."""

    def __init__(self, guard: GuardLog, overlay: Overlay, dynamism: Dynamism, keep: list[Any]) -> None:
        self._guard, self._overlay, self._dynamism, self._keep = guard, overlay, dynamism, keep
        self.looked_up: dict[tuple[int, str], Any] = {}
        # by their ids, with names under which an object's own dictionary is read first
        self.read_first: set[tuple[int, str]] = set()
        self.generic: set[int] = set()  # ids of those whose instances find attributes as `object` does
        # functions that `super` found, by the ids of the receiver's class and of the class it began after, and the name
        self.inherited: dict[tuple[int, int, str], Any] = {}
        self._noted: set[int] = set()
        self._kinds: set[int] = set()  # ids of modules and classes whose class is guarded

    def lookup(self, cls: type, name: str) -> Any:
        """Look up `name` in the MRO of `cls`, pending writes included, and guard it; ABSENT when there is none."""
        key = (id(cls), name)
        found = self.looked_up.get(key, self)  # the world itself: not looked up yet
        if found is self:
            found = self.looked_up[key] = self._lookup(cls, name)
            self._keep.append(cls)
        return found

    def forget(self) -> None:
        """A class attribute was written."""
        self.looked_up.clear()
        self.inherited.clear()
        self.read_first.clear()
        self.generic.clear()

    def _lookup(self, cls: type, name: str) -> Any:
        if name not in self._overlay.names:
            found = _core.type_lookup(cls, name, ABSENT)
            if found is not ABSENT:
                self.guard_lookup(cls, name, found)
            elif flags_of(cls) & _HEAP_TYPE:
                self._guard(const(cls), "NO_LOOKUP", name, name)
            return found
        if any((id(base), name) in self._overlay for base in mro_of(cls)):
            self._guard_holders(cls, name)
        for base in mro_of(cls):
            pending = self._overlay.get((id(base), name), ABSENT)
            if pending is not ABSENT:
                return pending
            own = members_of(base)
            if name in own:
                self.guard_lookup(cls, name, own[name])
                return own[name]
        if flags_of(cls) & _HEAP_TYPE:
            self._guard(const(cls), "NO_LOOKUP", name, name)
        return ABSENT

    def _guard_holders(self, cls: type, name: str) -> None:
        """A class of the order was written to: now it matters where each value is, not the values alone."""
        for base in mro_of(cls):
            if (id(base), name) in self._overlay:
                return
            self._guard_holder(base, name)
            if name in members_of(base):
                return

    def _guard_holder(self, base: type, name: str) -> None:
        has = name in members_of(base)
        said = f"has {'a' if has else 'no'} {name!r} of its own"
        self._guard(const(base), "CHECK", (functools.partial(_is_holder, name, has), said), ("holder", name))

    def is_pending(self, cls: type, name: str) -> bool:
        """Return whether what a lookup finds was written by captured code."""
        first = next((one for one in mro_of(cls) if (id(one), name) in self._overlay or name in members_of(one)), cls)
        return (id(first), name) in self._overlay

    def guard_lookup(self, cls: type, name: str, found: Any) -> None:
        """The class attribute is this object.  Leaves are guarded by equality when they are let in."""
        if not flags_of(cls) & _HEAP_TYPE:
            return
        if type(found) in LEAF_TYPES:
            place = const(cls).to("lookup", name)
            if type(found) in (int, float) and self._dynamism.number(found, place):
                self._guard(place, "TYPE", type(found))
            else:
                self._guard(place, "EQ", found)
        else:  # scalars of numpy are guarded by their text when they are let in
            kind = "TYPE" if type(found) in SCALARS else "IS"
            self._guard(const(cls).to("lookup", name), kind, type(found) if kind == "TYPE" else found)

    def note_kind(self, obj: Any) -> None:
        """The class of a module or of a class decides what is done with it, and its identity does not say which class
        that is: `obj.__class__` may be assigned.
        """
        fixed = _core.is_a(obj, type) and not _core.is_python_class(type(obj))  # CPython refuses the assignment
        if id(obj) not in self._kinds and not fixed and not self._is_made(obj):
            self._kinds.add(id(obj))
            self._keep.append(obj)
            self._guard(const(obj), "TYPE", type(obj))

    def _is_made(self, obj: Any) -> bool:
        """Return whether it is a module that was made inside, by C code and so unseen: no guard knows it."""
        if not _core.is_a(obj, types.ModuleType) or _is_listed(obj):
            return False
        return not any(guard.value is obj for guard in self._guard.guards)

    def note_order(self, cls: type) -> None:
        """The place of `cls` among classes was asked: its bases are guarded."""
        if _core.is_python_class(cls) and id(cls) not in self._noted:
            self._guard(const(cls), "DUNDERS", dunders(cls))

    def note_class(self, cls: type) -> None:
        """Special methods of `cls` may be called by C code: their presence and identity are guarded."""
        if id(cls) in self._noted:
            return
        found = dunders(cls)
        unwatched = unwatched_method(found[1])
        self._note(cls, found)
        if unwatched is not None and cls not in HARMLESS:
            raise Interrupt("opaque-object", f"{module_of(cls)}.{qualname_of(cls)} with its {unwatched}")

    def note_if_watched(self, cls: type) -> bool:
        """As `note_class`; False where C code would call a special method unseen, and nothing is guarded."""
        if id(cls) in self._noted:
            return True
        found = dunders(cls)
        if unwatched_method(found[1]) is not None and cls not in HARMLESS:
            return False
        self._note(cls, found)
        return True

    def _note(self, cls: type, found: Any) -> None:
        self._noted.add(id(cls))
        self._keep.append(cls)
        self._guard(const(cls), "DUNDERS", found)
        if flags_of(cls) & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE and _shows_its_class(cls):
            self._note_names(cls)

    def _note_names(self, cls: type) -> None:
        """C code may show the names of `cls` in a text: each is guarded where the class keeps it."""
        meta = type(cls)
        plain = type(members_of(cls).get("__module__")) is str
        if plain and all(type_lookup(meta, name) is type_lookup(type, name) for name in _NAMING):
            for name, now in zip(_NAMES, names_of(cls)):
                self._guard(const(cls).to("attr", name), "EQ", now)
        else:
            self._guard(const(cls).to("ask", names_of), "EQ", names_of(cls))


def _is_listed(module: types.ModuleType) -> bool:
    """Return whether it is among the imported modules, mostly under its own name."""
    name = _core.own_dict(module).get("__name__")
    if type(name) is str and sys.modules.get(name) is module:
        return True
    return any(one is module for one in tuple(sys.modules.values()))


def _shows_its_class(cls: type) -> bool:
    """Return whether C code makes a text of instances that names their class."""
    own = _core.type_lookup(cls, "__repr__", None)
    return type(own) is not types.FunctionType and not any(own is one for one in _WITHOUT_NAME)

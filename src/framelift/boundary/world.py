"""The world as one rehearsal sees it: guards made, objects imported, writes pending.

Nothing external reaches captured code but through `World.let_in` (the import gateway of gateway.py).
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from .. import _core, config
from .._core import code_of, id
from ..graph.symbols.numpy_numbers import SCALARS
from ..guards.checks import check
from ..guards.kinds import Guard, dunders, with_method
from ..vocabulary.class_reads import flags_of, members_of, module_of, mro_of, names_of, qualname_of
from ..vocabulary.origins import Origin, const
from ..vocabulary.reasons import Interrupt
from .attributes.owners import Owners
from .attributes.special_methods import unwatched_method
from .becomes.leaves import LEAF_TYPES
from .becomes.opaque import opaque_for
from .dynamism import STATIC, Dynamism
from .records import DELETED, Effect, External, Overlay, Shadow

ABSENT = object()
_HEAP_TYPE = 1 << 9  # the others are made by C code and stay as they are, and so do their bases
_IMMUTABLE_TYPE = 1 << 8  # made by C code, and stays as it is, too


def type_lookup(cls: type, name: str) -> Any:
    """Look up a name in the MRO of an external class, unguarded; ABSENT when there is none."""
    return _core.type_lookup(cls, name, ABSENT)


#: texts that C code makes of instances without a word of their class, or with one that is guarded where it is shown
_WITHOUT_NAME = tuple(kind.__repr__ for kind in (object, type, list, dict, tuple, str, int, float, complex, bytes))
#: what `names_of` reads, and what a metaclass reads it by
_NAMES = ("__module__", "__qualname__", "__name__")
_NAMING = ("__getattribute__", *_NAMES)
_OF_ATTRIBUTES = frozenset(("setattr", "delattr", "setdict", "deldict"))


@check
def _is_holder(name: str, has: bool, now: type) -> bool:
    return (name in members_of(now)) is has


class World:
    """Registry, guards and overlay of one rehearsal."""

    view_of: Callable[[World, Any], Any]  # of an object's attributes; set by instance_dict
    of_tensor: Callable[[Any, str, Any], Any]  # what a descriptor of torch's gives for a stand-in; set by the session
    # of functions of one code, where it does not depend on which it is; set by frames
    guard_handling: Callable[[World, Any, Origin], bool]

    def __init__(
        self,
        stand_in: Callable[..., Any],
        number: Callable[..., Any] | None = None,
        dynamism: Dynamism = STATIC,
        symbolic_entries: Callable[[Any], tuple[frozenset[int], frozenset[int]]] = lambda _: (frozenset(), frozenset()),
    ) -> None:
        self.stand_in = stand_in
        self.number = number  # makes a symbolic number
        self.dynamism = dynamism  # says which numbers and sizes are to be symbolic
        self.largest = config.large_container  # no container of more entries is copied
        # makes the private one of a generator of random numbers
        self.generator: Callable[[Any, Origin], Any] | None = None
        # makes the value of a script object, and lets the placeholder answer for its methods
        self.script_object: Callable[[Any, Any, str, Any, Any, str], None] | None = None
        # whether tensors that such objects hold may have symbolic sizes
        self.follows_contents: Callable[[], bool] = lambda: False
        # the dimensions of a tensor let in whose size, and whose stride, is symbolic
        self.symbolic_entries = symbolic_entries
        # adds a guard once: guard(origin, kind, value, tag); the tag distinguishes several of a kind at one origin
        self.guard = _core.GuardLog(Guard, self.meet_function)
        self.guards: list[Guard] = self.guard.guards
        self.memo: dict[int, External] = {}  # by id of the original
        self.tested: dict[int, tuple[Any, Origin]] = {}  # of which only the truth was looked at, by id
        self.by_seen: dict[int, External] = {}  # by id of what captured code sees
        self.handed: dict[int, External] = {}  # what is only handed on, by id of what captured code holds
        self.shadows: list[Shadow] = []
        self.shadow_ids: dict[int, Shadow] = {}
        self.overlay = Overlay()
        self.shows_places = False  # captured code looked at code, or at where it is written: a file, a line
        # names that were deleted and written again: they are the last of their dictionary
        self.reentered: set[tuple[int, str]] = set()
        self.effects: list[Effect] = []  # in the order of the program; exits merge writes to one place
        self.distinct: list[Origin] = []
        self.owners = Owners()
        self.viewed: set[int] = set()  # ids of objects of whose attributes a view was taken
        self.function_origins: dict[int, Origin] = {}  # of functions guarded by their code, by their id
        self.guarded_by_code: set[int] = set()  # their code, by its id: to hash code takes long
        # makes the next rehearsal import what such functions are bound to, read or not; None: this one does
        self.read_receivers: Callable[[], None] | None = None
        # id of a code -> functions that are constants, by id, with their place (None: a key), and what keeps the id
        self.functions: dict[int, tuple[dict[int, Origin | None], types.CodeType]] = {}
        self.numbers: dict[Origin, Any] = {}  # symbolic numbers let in
        self.scalars: dict[
            Origin, Any
        ] = {}  # numbers of constants that no guard shows by itself: scalars of numpy, lengths of sets
        self.keep: list[Any] = []
        self.leaving: list[
            Callable[[], None]
        ] = []  # what sets the process back to where it was, run when the rehearsal is over
        self.finishing: list[
            Callable[[], Any]
        ] = []  # what looks at the end of the program once more, before recipes are made
        self.references: list[Any] = []  # external weak references
        self.called_back: list[Any] = []  # those that have a callback, and such ones in dictionaries read key by key
        # the arguments of the root that its variables may let go of before it ends
        self.rebound: Callable[[], list[Any]] = list
        self.errors: list[BaseException] = []  # copies of external exceptions
        self.registered: list[type] = []  # classes that captured code registered with abstract ones
        self.sealed: dict[int, Any] = {}  # external properties and their like, which may have attributes
        self.attributes_before: dict[int, dict[str, Any]] = {}  # instance attributes of shadows, right after import
        self._noted: set[int] = set()
        self._kinds: set[int] = set()  # ids of modules and classes whose class is guarded
        self._read_through: dict[
            int, list[tuple[Any, str]]
        ] = {}  # id of a module's table -> attributes answered from it
        self._looked_up: dict[tuple[int, str], Any] = {}
        # classes by their ids, with names under which an object's own dictionary is read first
        self.read_first: set[tuple[int, str]] = set()
        self.generic: set[int] = set()  # ids of classes whose instances find attributes as `object` does
        # functions that `super` found, by the ids of the receiver's class and of the class it began after, and the name
        self.inherited: dict[tuple[int, int, str], Any] = {}
        self._cell_origin: dict[int, Origin] = {}

    def follow(self, readers: dict[int, Any]) -> None:
        """Let the probes look into this world: they answer the usual reads of handles (csrc/handle_reads.cpp)."""
        tables = (self.guard, self.memo, self.by_seen, self.overlay.names, self._looked_up, self.generic)
        tests = (self.read_first, self.tested, self.distinct, self._read_through, self.keep, self.inherited)
        _core.follow_world(self, readers, tables + tests, self.number is None or self.dynamism.quiet)

    # ---- guards ---------------------------------------------------------------------------------------------------

    def guard_method(self, origin: Origin, name: str) -> bool:
        """Guard that no attribute of the tensor at `origin` hides a method; False where no guard could say so."""
        index = self.guard.tensors.get(origin)
        if index is None:
            return False
        guard = self.guards[index]
        if name not in guard.value.methods:
            self.guards[index] = Guard(origin, guard.kind, with_method(guard.value, name), guard.line)
        return True

    def meet_function(self, function: types.FunctionType, origin: Origin | None) -> None:
        """A function that is guarded by its identity: one guarded by its code might be the same at another call, so it
        is guarded not to be.
        """
        code = code_of(function)
        known, _ = self.functions.setdefault(id(code), ({}, code))
        if id(function) in known:
            return
        known[id(function)] = origin
        elsewhere = self.function_origins.get(id(function))
        if elsewhere is not None:  # the same one: then it is a constant there too
            self.guard(elsewhere, "IS", function)
        elif id(code) in self.guarded_by_code:
            if origin is None:
                raise Interrupt("symbolic-number", "a function made by the same code as one that is a key")
            self.distinct.append(origin)

    def pin_function(self, function: Any) -> None:
        """Something keeps the function beyond this call, or looks into it unseen: which one it is is a fact, however it
        was guarded so far.
        """
        origin = self.function_origins.get(id(function))
        if origin is not None:
            self.guard(origin, "IS", function)

    def meet_key(self, key: Any) -> None:
        """A key that is itself inside and outside."""
        if type(key) is types.FunctionType:
            self.meet_function(key, None)
        elif type(key) is tuple:
            for part in key:
                self.meet_key(part)

    def lookup(self, cls: type, name: str) -> Any:
        """Look up `name` in the MRO of `cls`, pending writes included, and guard it; ABSENT when there is none."""
        key = (id(cls), name)
        found = self._looked_up.get(key, self)  # the world itself: not looked up yet
        if found is self:
            found = self._looked_up[key] = self._lookup(cls, name)
            self.keep.append(cls)
        return found

    def forget_lookups(self) -> None:
        """A class attribute was written."""
        self._looked_up.clear()
        self.inherited.clear()
        self.read_first.clear()
        self.generic.clear()

    def _lookup(self, cls: type, name: str) -> Any:
        if name not in self.overlay.names and not _core.is_internal(cls):
            found = _core.type_lookup(cls, name, ABSENT)
            if found is not ABSENT:
                self.guard_lookup(cls, name, found)
            elif flags_of(cls) & _HEAP_TYPE:
                self.guard(const(cls), "NO_LOOKUP", name, name)
            return found
        deleted = False  # outside it is still there: guarded is the class that has the next
        if any((id(base), name) in self.overlay for base in mro_of(cls)):
            self._guard_holders(cls, name)
        for base in mro_of(cls):
            pending = self.overlay.get((id(base), name), ABSENT)
            if pending is not ABSENT:
                if pending is DELETED:
                    deleted = True
                    continue
                return pending
            own = members_of(base)
            if name in own:
                found = own[name]
                if _core.is_internal(cls) and not deleted:
                    self._guard_inherited(cls, name, base)
                elif not _core.is_internal(base):
                    self.guard_lookup(base if deleted else cls, name, found)
                return found
        if deleted:
            return ABSENT  # the classes were looked at one by one
        if _core.is_internal(cls):
            self._guard_inherited(cls, name, None)
        elif flags_of(cls) & _HEAP_TYPE:
            self.guard(const(cls), "NO_LOOKUP", name, name)
        return ABSENT

    def _guard_inherited(self, cls: type, name: str, holder: type | None) -> None:
        """A class made inside was asked: `holder` is the first base outside that has the name; None: no base has it."""
        mro = mro_of(cls)
        outside: list[type] = [
            base for base in mro[: mro.index(holder) + 1 if holder is not None else None] if not _core.is_internal(base)
        ]
        first = outside[0] if outside else object
        if mro_of(first) == mro[mro.index(first) :]:  # what it finds is what the class made inside finds
            outside = [first]
        for base in outside:
            if not flags_of(base) & _HEAP_TYPE:
                continue
            if (
                base is holder
                or base is first
                and holder is not None
                and not _core.is_internal(holder)
                and len(outside) == 1
            ):
                self.guard_lookup(base, name, members_of(holder)[name])
            elif not any(name in members_of(one) for one in mro_of(base)):
                self.guard(const(base), "NO_LOOKUP", name, name)
            else:
                self._guard_holder(base, name)

    def _guard_holders(self, cls: type, name: str) -> None:
        """A class of the order was written to: now it matters where each value is, not the values alone."""
        for base in mro_of(cls):
            if (id(base), name) in self.overlay:
                if self.overlay[(id(base), name)] is DELETED:
                    continue
                return
            if not _core.is_internal(base):
                self._guard_holder(base, name)
            if name in members_of(base):
                return

    def _guard_holder(self, base: type, name: str) -> None:
        has = name in members_of(base)
        said = f"has {'a' if has else 'no'} {name!r} of its own"
        self.guard(const(base), "CHECK", (functools.partial(_is_holder, name, has), said), ("holder", name))

    def place_of(self, cls: type, name: str) -> tuple[bool, type]:
        """Return whether what a lookup finds was made inside, and otherwise the class at which to look for it
        outside.
        """
        place: type | None = cls
        for base in mro_of(cls):
            pending = self.overlay.get((id(base), name), ABSENT)
            if pending is DELETED:
                place = None  # outside it is still there: the lookup begins at the class that has the next
            elif pending is not ABSENT:
                return True, cls
            elif name in members_of(base):
                if _core.is_internal(base):
                    return True, cls
                return False, base if place is None or _core.is_internal(
                    cls
                ) else place  # not by truth: a metaclass may define that
        return False, cls if place is None else place

    def guard_lookup(self, cls: type, name: str, found: Any) -> None:
        """The class attribute is this object.  Leaves are guarded by equality when they are let in."""
        if not flags_of(cls) & _HEAP_TYPE:
            return
        if type(found) in LEAF_TYPES:
            place = const(cls).to("lookup", name)
            if type(found) in (int, float) and self.dynamism.number(found, place):
                self.guard(place, "TYPE", type(found))
            else:
                self.guard(place, "EQ", found)
        else:  # scalars of numpy are guarded by their text when they are let in
            kind = "TYPE" if type(found) in SCALARS else "IS"
            self.guard(const(cls).to("lookup", name), kind, type(found) if kind == "TYPE" else found)

    def note_kind(self, obj: Any) -> None:
        """The class of a module or of a class decides what is done with it, and its identity does not say which class
        that is: `obj.__class__` may be assigned.
        """
        fixed = _core.is_a(obj, type) and not _core.is_python_class(type(obj))  # CPython refuses the assignment
        if id(obj) not in self._kinds and not fixed and not _core.is_internal(obj) and not self._is_made(obj):
            self._kinds.add(id(obj))
            self.keep.append(obj)
            self.guard(const(obj), "TYPE", type(obj))

    def _is_made(self, obj: Any) -> bool:
        """Return whether it is a module that was made inside, by C code and so unseen: no guard knows it."""
        if not _core.is_a(obj, types.ModuleType) or _is_listed(obj):
            return False
        return not any(guard.value is obj for guard in self.guards)

    def note_order(self, cls: type) -> None:
        """The place of `cls` among classes was asked: its bases are guarded; of a class made inside, theirs."""
        for one in mro_of(cls) if _core.is_internal(cls) else (cls,):
            if _core.is_python_class(one) and not _core.is_internal(one) and id(one) not in self._noted:
                self.guard(const(one), "DUNDERS", dunders(one))

    def note_class(self, cls: type) -> None:
        """Special methods of `cls` may be called by C code: their presence and identity are guarded."""
        if id(cls) in self._noted or _core.is_internal(cls):
            return
        found = dunders(cls)
        unwatched = unwatched_method(found[1])
        self._note(cls, found)
        if unwatched is not None and cls not in LEAF_TYPES:  # leaves are known to be harmless
            raise Interrupt("opaque-object", f"{module_of(cls)}.{qualname_of(cls)} with its {unwatched}")

    def note_if_watched(self, cls: type) -> bool:
        """As `note_class`; False where C code would call a special method unseen, and nothing is guarded."""
        if id(cls) in self._noted or _core.is_internal(cls):
            return True
        found = dunders(cls)
        if unwatched_method(found[1]) is not None:
            return False
        self._note(cls, found)
        return True

    def _note(self, cls: type, found: Any) -> None:
        self._noted.add(id(cls))
        self.keep.append(cls)
        self.guard(const(cls), "DUNDERS", found)
        if flags_of(cls) & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE and _shows_its_class(cls):
            self._note_names(cls)

    def _note_names(self, cls: type) -> None:
        """C code may show the names of `cls` in a text: each is guarded where the class keeps it."""
        meta = type(cls)
        plain = type(members_of(cls).get("__module__")) is str
        if plain and all(type_lookup(meta, name) is type_lookup(type, name) for name in _NAMING):
            for name, now in zip(_NAMES, names_of(cls)):
                self.guard(const(cls).to("attr", name), "EQ", now)
        else:
            self.guard(const(cls).to("ask", names_of), "EQ", names_of(cls))

    # ---- registry -------------------------------------------------------------------------------------------------

    def register(self, original: Any, seen: Any, origin: Origin, *, mutable: bool = True) -> Any:
        """Remember that captured code sees `seen` where the outside has `original`."""
        record = External(original, seen, origin)
        self.memo[id(original)] = record
        self.by_seen[id(seen)] = record
        if mutable:
            self.distinct.append(origin)
        return seen

    def test_empty(self, table: Any, origin: Origin) -> None:
        """A table is empty, and only its truth was read.  It may be imported later, unchanged until then."""
        known = self.tested.get(id(table))
        if known is None:
            self.tested[id(table)] = (table, origin)
            self.guard(origin, "TYPE", type(table))
            self.guard(origin, "KEYS", ())
            self.distinct.append(origin)
        elif known[1] != origin:
            self.guard(origin, "SAME", known[1])

    def handed_on(self, original: Any, origin: Origin) -> Any:
        """An object that captured code only hands on: nothing is known of it, nor whether another path leads there."""
        seen = opaque_for(original)
        self.by_seen[id(seen)] = self.handed[id(seen)] = External(original, seen, origin)
        return seen

    def read_in_part(self, original: Any, seen: Any, origin: Origin) -> Any:
        """An object of which captured code reads known parts by this path: another one imports it as a whole."""
        self.by_seen[id(seen)] = External(original, seen, origin)
        return seen

    def read_through(self, table: Any, obj: Any, name: str) -> None:
        """The probes remember `obj.name`, found in `table`: forget it once captured code may change the table."""
        self._read_through.setdefault(id(table), []).append((obj, name))

    def table_opened(self, table: Any) -> None:
        """A shadow of `table` was made: from now on it is the truth."""
        for obj, name in self._read_through.pop(id(table), ()):
            _core.forget(obj, name)

    def own_root(self, obj: Any) -> None:
        """`obj` (a globals dictionary) is its own origin."""
        self.by_seen.setdefault(id(obj), External(obj, obj, const(obj)))

    def add_shadow(self, shadow: Shadow) -> None:
        self.shadows.append(shadow)
        self.shadow_ids[id(shadow.copy)] = shadow

    def origin_of(self, seen: Any) -> Origin | None:
        """The origin of an external object that captured code holds, or None when it is internal."""
        record = self.by_seen.get(id(seen))
        return record.origin if record is not None else None

    # ---- pending writes -------------------------------------------------------------------------------------------

    def put(self, obj: Any, name: str, value: Any) -> None:
        """A pending entry of an object's dictionary.  One that was deleted comes in again, as the last."""
        key = (id(obj), name)
        if self.overlay.get(key, ABSENT) is DELETED:
            del self.overlay[key]
            self.reentered.add(key)
        self.overlay[key] = value

    def write(self, kind: str, owner: Any, key: Any, value: Any) -> None:
        """Add a pending write."""
        if kind in _OF_ATTRIBUTES and id(owner) in self.viewed:
            raise Interrupt(
                "effect-object", f"the __dict__ of a {qualname_of(type(owner))}, of which a view was taken,"
            )
        self.effects.append(Effect(kind, owner, key, value))

    def all_distinct(self) -> list[Origin]:
        """Where things are that must be different objects, at the end of the program."""
        written = {owner for owner, _ in self.overlay}
        tables = any(type(s.copy) is dict and not _is_unchanged(s.copy, s.before) for s in self.shadows)
        return [*self.distinct, *self.owners.places(lambda obj: id(obj) in written, tables)]

    def cell_origin(self, cell: Any) -> Origin:
        return self._cell_origin[id(cell)]

    def add_cell(self, cell: Any, origin: Origin) -> None:
        """An external closure cell, reached by `origin`."""
        if id(cell) not in self._cell_origin:
            self._cell_origin[id(cell)] = origin
            self.keep.append(cell)
            _core.mark_cell(cell)

    def is_external_cell(self, cell: Any) -> bool:
        return id(cell) in self._cell_origin


def _is_listed(module: types.ModuleType) -> bool:
    """Return whether it is among the imported modules, mostly under its own name."""
    name = _core.own_dict(module).get("__name__")
    if type(name) is str and sys.modules.get(name) is module:
        return True
    return any(one is module for one in tuple(sys.modules.values()))


def _is_unchanged(table: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return len(table) == len(before) and all(
        a is b for one, other in zip(table.items(), before.items()) for a, b in zip(one, other)
    )


def _shows_its_class(cls: type) -> bool:
    """Return whether C code makes a text of instances that names their class."""
    own = _core.type_lookup(cls, "__repr__", None)
    return type(own) is not types.FunctionType and not any(own is one for one in _WITHOUT_NAME)

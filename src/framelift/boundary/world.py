"""The world as one rehearsal sees it: guards made, objects imported, writes pending.

Nothing external reaches captured code but through `World.let_in` (the import gateway of gateway.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from .. import _core
from .._core import id
from ..graph.symbols.meanings import NO_MARKS, Marks
from ..guards.kinds import Guard, with_method
from ..vocabulary.origins import Origin, const
from .attributes.known_classes import KnownClasses
from .attributes.owners import Owners
from .becomes.opaque import opaque_for
from .dynamism import Dynamism
from .facts.known_functions import KnownFunctions
from .records import ABSENT, DELETED, External, Journal, Overlay, Shadow


class Tensors(Protocol):
    """What the recorder makes of external objects that are part of graphs."""

    def stand_in(
        self, tensor: torch.Tensor, name: str = "", dims: frozenset[int] = frozenset(), marks: Marks = NO_MARKS
    ) -> torch.Tensor: ...
    def number(self, value: Any, origin: Origin) -> Any:
        """Return a symbolic number."""

    def symbolic_entries(self, tensor: torch.Tensor) -> tuple[frozenset[int], frozenset[int]]:
        """Return the dimensions whose size, and whose stride, is symbolic."""

    def follows_contents(self) -> bool:
        """Return whether tensors that objects of the program hold, which graphs are given, may have symbolic sizes."""


class ReadInPart:
    """Objects of which captured code has read no more than a part."""

    def __init__(self) -> None:
        self.tested: dict[int, tuple[Any, Origin]] = {}  # of which only the truth was looked at, by id
        self.handed: dict[int, External] = {}  # what is only handed on, by id of what captured code holds
        # id of a module's table -> attributes that the probes answer from it
        self.answered: dict[int, list[tuple[Any, str]]] = {}

    def read_through(self, table: Any, obj: Any, name: str) -> None:
        """The probes remember `obj.name`, found in `table`: forget it once captured code may change the table."""
        self.answered.setdefault(id(table), []).append((obj, name))

    def table_opened(self, table: Any) -> None:
        """A shadow of `table` was made: from now on it is the truth."""
        for obj, name in self.answered.pop(id(table), ()):
            _core.forget(obj, name)


class Ends:
    """What is looked at, and what is put back, when the program of a rehearsal is over."""

    def __init__(self) -> None:
        self.finishing: list[Callable[[], Any]] = []  # looks at the end once more, before recipes are made
        self.leaving: list[Callable[[], None]] = []  # sets the process back to where it was
        # the arguments of the root that its variables may let go of before it ends
        self.rebound: Callable[[], list[Any]] = list


class World:
    """Registry, guards and overlay of one rehearsal."""

    view_of: Callable[[World, Any], Any]  # of an object's attributes; set by instance_dict
    of_tensor: Callable[[Any, str, Any], Any]  # what a descriptor of torch's gives for a stand-in; set by the session
    # of functions of one code, where it does not depend on which it is; set by frames
    guard_handling: Callable[[World, Any, Origin], bool]

    def __init__(self, tensors: Tensors, dynamism: Dynamism, largest: int) -> None:
        self.tensors = tensors
        self.dynamism = dynamism  # says which numbers and sizes are to be symbolic
        self.largest = largest  # no container of more entries is copied
        self.features: dict[Any, Any] = {}  # typed states (vocabulary/feature_state.py)
        self.keep: list[Any] = []
        self.distinct: list[Origin] = []
        self.functions = KnownFunctions(self.distinct)
        # adds a guard once: guard(origin, kind, value, tag); the tag distinguishes several of a kind at one origin
        self.guard = self.functions.guard = _core.GuardLog(Guard, self.functions.meet)
        self.memo: dict[int, External] = {}  # by id of the original
        self.by_seen: dict[int, External] = {}  # by id of what captured code sees
        self.parts = ReadInPart()
        self.shadows: dict[int, Shadow] = {}  # by id of the copy
        self.cells: dict[int, Origin] = {}  # of external closures, by their ids
        self.owners = Owners()
        self.numbers: dict[Origin, Any] = {}  # symbolic numbers let in
        self.overlay = Overlay()
        self.effects = Journal()
        self.classes = KnownClasses(self.guard, self.overlay, dynamism, self.keep)
        self.shows_places = False  # captured code looked at code, or at where it is written: a file, a line
        self.ends = Ends()

    @property
    def guards(self) -> list[Guard]:
        return self.guard.guards

    def follow(self, readers: dict[int, Any]) -> None:
        """Let the probes look into this world: they answer the usual reads of handles (csrc/handle_reads.cpp)."""
        classes, parts = self.classes, self.parts
        tables = (self.guard, self.memo, self.by_seen, self.overlay.names, classes.looked_up, classes.generic)
        tests = (classes.read_first, parts.tested, self.distinct, parts.answered, self.keep, classes.inherited)
        _core.follow_world(self, readers, tables + tests, self.dynamism.quiet)

    def close(self) -> None:
        """Let go of everything: views of the program's containers know their world, and the log its functions."""
        self.functions.__dict__.clear()
        self.__dict__.clear()

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
        known = self.parts.tested.get(id(table))
        if known is None:
            self.parts.tested[id(table)] = (table, origin)
            self.guard(origin, "TYPE", type(table))
            self.guard(origin, "KEYS", ())
            self.distinct.append(origin)
        elif known[1] != origin:
            self.guard(origin, "SAME", known[1])

    def handed_on(self, original: Any, origin: Origin) -> Any:
        """An object that captured code only hands on: nothing is known of it, nor whether another path leads there."""
        seen = opaque_for(original)
        self.by_seen[id(seen)] = self.parts.handed[id(seen)] = External(original, seen, origin)
        return seen

    def read_in_part(self, original: Any, seen: Any, origin: Origin) -> Any:
        """An object of which captured code reads known parts by this path: another one imports it as a whole."""
        self.by_seen[id(seen)] = External(original, seen, origin)
        return seen

    def own_root(self, obj: Any) -> None:
        """`obj` (a globals dictionary) is its own origin."""
        self.by_seen.setdefault(id(obj), External(obj, obj, const(obj)))

    def add_shadow(self, shadow: Shadow) -> None:
        self.shadows[id(shadow.copy)] = shadow

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
            self.overlay.reentered.add(key)
        self.overlay[key] = value

    def write(self, kind: str, owner: Any, key: Any, value: Any) -> None:
        self.effects.write(kind, owner, key, value)

    def all_distinct(self) -> list[Origin]:
        """Where things are that must be different objects, at the end of the program."""
        written = {owner for owner, _ in self.overlay}
        tables = any(type(s.copy) is dict and not _is_unchanged(s.copy, s.before) for s in self.shadows.values())
        return [*self.distinct, *self.owners.places(lambda obj: id(obj) in written, tables)]

    def cell_origin(self, cell: Any) -> Origin:
        return self.cells[id(cell)]

    def add_cell(self, cell: Any, origin: Origin) -> None:
        """An external closure cell, reached by `origin`."""
        if id(cell) not in self.cells:
            self.cells[id(cell)] = origin
            self.keep.append(cell)
            _core.mark_cell(cell)

    def is_external_cell(self, cell: Any) -> bool:
        return id(cell) in self.cells


def _is_unchanged(table: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return len(table) == len(before) and all(
        a is b for one, other in zip(table.items(), before.items()) for a, b in zip(one, other)
    )

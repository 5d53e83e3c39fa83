"""Reads of code that runs unwatched: found in its code, by the names it uses, and guarded as they were before it ran.

The methods of a wrapper subclass, and functions that are declared to be one node, run at capture over fakes, and
with some compilers never again.  Constants, containers, helpers and attributes of objects that they name are
followed as far as the program's own code goes; names are taken together, since a helper may be given any of the
objects.  What such code changes itself (it counts, logs or caches) is no reason to capture again: it is put back,
and not guarded.
"""

from __future__ import annotations

import collections
import functools
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...guards.checks import is_made_of
from ...guards.equality import PARTS, indistinguishable
from ...vocabulary.class_reads import members_of, module_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import Missing, Origin, const, fetch
from ...vocabulary.own_code import FRAMELIFT
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import TORCH, is_python_file, is_torch_class
from ..becomes.containers import KINDS
from ..becomes.leaves import is_leaf
from ..records import ABSENT, Shadow
from ..world import World

_MOST_ENTRIES = 2000
_WRAPPERS = (staticmethod, classmethod)
#: packages that torch stands on, and what has files of its own for their objects
FOUNDATIONS = {"torch", "framelift", "sympy", "mpmath"}
_CALLED = ("__call__", "forward", "backward", "setup_context")


def _is_own_function(function: types.FunctionType) -> bool:
    """Return whether a function belongs to the program or a library.  A wrapper does that has the name of another's
    module, or that comes from there and has the name of the program's.
    """
    file = function.__code__.co_filename
    return _is_own(function.__module__) or not (file.startswith(("<", FRAMELIFT, TORCH)) or is_python_file(file))


def _is_own(module: Any) -> bool:
    """Return whether a module belongs to the program or a library, not to Python, torch, what that stands on, or
    framelift.
    """
    first = module.partition(".")[0] if type(module) is str else ""
    return first not in FOUNDATIONS and first not in sys.stdlib_module_names


def _names(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes, and texts that might be such a name."""
    yield from code.co_names
    for inner in code.co_consts:
        if type(inner) is str:
            yield inner
        elif is_a(inner, types.CodeType):
            yield from _names(inner)


def _names_in(owner: Any) -> Iterator[str]:
    """Names under which an owner may have something."""
    if type(owner) is dict:  # a module's
        yield from [name for name in owner if type(name) is str]
        return
    if not is_a(owner, type):
        yield from list(vars(owner))
    for base in mro_of(owner if is_a(owner, type) else type(owner)):
        yield from list(members_of(base))


class UnwatchedReads:
    """The reads of one rehearsal's unwatched code."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._who = ""
        self._met: dict[int, Any] = {}  # objects followed
        self._names: set[str] = set()
        self._owners: list[tuple[Any, set[str]]] = []  # what has attributes, and the names asked of it
        self._found: list[tuple[Origin, str, Any]] = []  # guards to be
        self._absent: list[tuple[Any, str]] = []  # attributes of classes that an instance does not hide
        self._looked_up: list[tuple[type, str, Any]] = []  # attributes of classes
        self._kept: list[tuple[Any, Any]] = []  # containers, cells and entries, and what they held
        world.ends.finishing.append(self.finish)
        world.ends.leaving.append(self.put_back)

    def follow_class(self, cls: type, functions: list[types.FunctionType]) -> None:
        """These methods of a class run unwatched."""
        self._who = f"{qualname_of(cls)}.__torch_dispatch__"
        self._add_owner(cls)
        for function in functions:
            self._follow_function(function)
        self._follow_names()

    def follow(self, callable_: Any) -> None:
        """Calls of this run unwatched."""
        self._who = getattr(callable_, "__qualname__", qualname_of(type(callable_)))
        if type(callable_) is not types.FunctionType:
            self._names.update(_CALLED)
        self._value(None, callable_)
        self._follow_names()

    def _follow_names(self) -> None:
        todo = True
        while todo:
            todo = False
            for owner, done in list(self._owners):
                for name in [name for name in _names_in(owner) if name in self._names and name not in done]:
                    todo = True
                    done.add(name)
                    self._attribute(owner, name)

    # ---- following ----

    def _add_owner(self, owner: Any) -> None:
        if id(owner) not in self._met:
            self._met[id(owner)] = owner
            self._owners.append((owner, set()))

    def _follow_function(self, function: types.FunctionType) -> None:
        if id(function) in self._met or not _is_own_function(function):
            return
        self._met[id(function)] = function
        self._names.update(_names(function.__code__))
        self._add_owner(function.__globals__)
        if _core.is_internal(function):  # made by captured code, which is watched
            return
        for i, default in enumerate(function.__defaults__ or ()):
            self._value(const(function).to("default", i), default)
        for name, default in (function.__kwdefaults__ or {}).items():
            self._value(const(function).to("kwdefault", name), default)
        for i, cell in enumerate(function.__closure__ or ()):
            place = const(function).to("cell", i).to("contents")
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            self._kept.append((cell, held))
            self._value(place, held)

    def _attribute(self, owner: Any, name: str) -> None:
        if type(owner) is dict:  # a module's
            self._entry(owner, name, const(owner))
        elif is_a(owner, type):
            base = next((base for base in mro_of(owner) if name in members_of(base)), None)
            if base is not None and _is_own(module_of(base)):
                self._looked_up.append((owner, name, members_of(base)[name]))
                if not is_leaf(members_of(base)[name]):
                    self._value(None, members_of(base)[name])
        elif name in vars(owner):
            self._entry(vars(owner), name, const(owner).to("dict"))
        elif any(
            name in members_of(base) for base in mro_of(type(owner)) if base is not object
        ):  # one of the instance's own would hide it
            self._absent.append((owner, name))

    def _entry(self, table: dict[str, Any], name: str, place: Origin) -> None:
        if name in table:
            self._kept.append(((table, name), table[name]))
            self._value(place.to("item", name), table[name])

    def _value(self, place: Origin | None, value: Any) -> None:
        """Note the value found at `place`; None: it is guarded already."""
        if is_leaf(value):
            self._add(place, "EQ", value)
            return
        if _core.is_internal(value):
            return
        self._add(place, "IS", value)
        kind = type(value)
        if kind is types.FunctionType:
            self._follow_function(value)
        elif kind in _WRAPPERS or kind is types.MethodType:
            self._value(None, value.__func__)
            if kind is types.MethodType:
                self._value(None, value.__self__)
        elif kind is property:
            for function in (value.fget, value.fset):
                self._value(None, function)
        elif kind is types.ModuleType:
            if _is_own(vars(value).get("__name__")):
                self._add_owner(vars(value))
        elif is_a(value, type):
            if _is_own(value.__module__):
                self._add_owner(value)
        elif kind is tuple or kind in KINDS and bool(KINDS[kind].refill):
            self._container(value, kind)
        elif (
            not is_a(value, torch.Tensor)
            and _is_own(module_of(kind))
            and type(getattr(value, "__dict__", None)) is dict
        ):
            self._add_owner(value)
            self._add_owner(kind)

    def _container(self, value: Any, kind: type) -> None:
        if id(value) in self._met or len(value) > _MOST_ENTRIES:
            return
        self._met[id(value)] = value
        root = const(value)
        if kind is set:
            if all(map(is_leaf, value)):
                held = functools.partial(is_made_of, set, PARTS[set](value))
                self._found.append((root, "CHECK", (held, "has the elements it had")))
        elif issubclass(kind, dict):
            self._found.append((root, "KEYS", tuple(dict.keys(value))))
            for key, item in dict.items(value):
                self._value(root.to("item", key), item)
        else:
            if kind is not tuple:
                self._found.append((root, "LEN", len(value)))
            for i, item in enumerate(value):
                self._value(root.to("item", i), item)
        if kind is not tuple:
            self._kept.append((value, kind(value) if kind is not collections.defaultdict else dict(value)))

    def _add(self, place: Origin | None, kind: str, value: Any) -> None:
        if place is not None:
            self._found.append((place, kind, value))

    # ---- the end ----

    def finish(self) -> None:
        """Guard what is as it was; what captured code is to change before such code runs cannot be captured."""
        self._refuse_pending()
        changed = {id(owner) for owner, held in self._kept if not _holds(owner, held)}
        for place, kind, value in self._found:
            root = place
            while root.base is not None:
                root = root.base
            if id(root.key) not in changed and _is_so(place, kind, value):
                self._world.guard(place, kind, value, "unwatched" if kind == "CHECK" else 0)
        for owner, name in self._absent:
            if name not in vars(owner):
                self._world.guard(const(owner).to("dict"), "ABSENT", name, name)
        for cls, name, value in self._looked_up:
            if next((members_of(base)[name] for base in mro_of(cls) if name in members_of(base)), self) is value:
                self._world.classes.lookup(cls, name)

    def _refuse_pending(self) -> None:
        world = self._world
        modules = (sys.modules.get(owner.get("__name__", "")) for owner, _ in self._owners if type(owner) is dict)
        # writes to globals are their module's
        owners = {id(owner) for owner, _ in self._owners} | set(map(id, modules))
        cells = {id(owner) for owner, _ in self._kept if type(owner) is types.CellType}
        written = any(owner in cells or owner in owners and name in self._names for owner, name in world.overlay)
        if written or any(
            id(shadow.original) in self._met and _is_changed(shadow) for shadow in world.shadows.values()
        ):
            raise Interrupt("effect-object", f"what {self._who} may read")

    def put_back(self) -> None:
        """Undo the changes that the code made while it ran over fakes."""
        for owner, held in self._kept:
            if not _holds(owner, held):
                _restore(owner, held)
        for owner, name in self._absent:
            vars(owner).pop(name, None)


UNWATCHED_READS = FeatureState(UnwatchedReads)


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _holds(owner: Any, held: Any) -> bool:
    kind = type(owner)
    if kind is types.CellType:
        try:
            return owner.cell_contents is held
        except ValueError:
            return False
    if kind is tuple:  # the entry of a table
        return owner[0].get(owner[1], owner) is held
    if kind is set:
        return set(map(id, owner)) == set(map(id, held))
    return _same(list(owner), list(held)) and (
        not issubclass(kind, dict) or _same(list(dict.values(owner)), list(held.values()))
    )


def _is_so(place: Origin, kind: str, value: Any) -> bool:
    """Return whether a guard that is to be holds now."""
    if kind not in ("EQ", "IS"):
        return True  # of a container that is as it was
    try:
        now = fetch(place, ())
    except Missing:
        return False
    return now is value or kind == "EQ" and indistinguishable(now, value)


def _is_changed(shadow: Shadow) -> bool:
    kind = type(shadow.copy)
    if kind not in KINDS or not KINDS[kind].refill:
        return True
    before, now = shadow.before, KINDS[kind].snapshot(shadow.copy)
    if is_a(now, dict):
        return not (_same(list(before), list(now)) and _same(list(before.values()), list(now.values())))
    return not _same(list(before), list(now))


def _restore(owner: Any, held: Any) -> None:
    """Put back what was kept of a container, of an entry of one, or of a cell."""
    kind = type(owner)
    if kind is tuple:
        owner[0][owner[1]] = held
    elif kind is types.CellType:
        owner.cell_contents = held
    else:
        owner.clear()
        getattr(owner, KINDS[kind].refill)(held)


_OF_WRAPPERS = (
    "__torch_dispatch__",
    "__torch_function__",
    "__tensor_flatten__",
    "__tensor_unflatten__",
    "__new__",
    "__init__",
)


def note_wrapper_class(world: World, kind: type) -> None:
    """Guard the methods of a wrapper class, and what they may read."""
    functions = []
    for name in _OF_WRAPPERS:
        found = world.classes.lookup(kind, name)
        function = getattr(found, "__func__", found) if found is not ABSENT else None
        if type(function) is types.FunctionType and not is_torch_class(kind):
            functions.append(function)
    if functions:
        UNWATCHED_READS.of(world, world).follow_class(kind, functions)

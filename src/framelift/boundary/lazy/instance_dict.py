"""A handle's `__dict__` as captured code sees it: a mapping over the real dictionary and the pending writes.

Entries are imported one by one as they are read, so that touching one attribute does not guard all the others.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ... import _core
from ..._core import id, is_a
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..attributes.owners import own_dict
from ..gateway import let_in
from ..records import ABSENT, DELETED, External
from ..world import World
from .view import LazyLookup


def instance_entry(world: World, obj: Any, name: str) -> Any:
    """The entry of the instance dictionary, pending writes first; ABSENT when there is none.  Guarded."""
    own = own_dict(obj)
    if name in world.overlay.names:
        is_module = is_a(obj, types.ModuleType)  # what is pending for its dictionary is in no slot
        pending = world.overlay.get((id(own if is_module else obj), name), ABSENT)
        if pending is not ABSENT and (is_module or not _in_slot(obj, name)):
            return ABSENT if pending is DELETED else pending
    if own is None:
        return ABSENT
    record = world.by_seen.get(id(obj))
    origin = (record.origin if record is not None else const(obj)).to("dict")
    if name in own:
        return let_in(world, own[name], origin.to("item", name))
    world.guard(origin, "ABSENT", name, name)
    return ABSENT


def _in_slot(obj: Any, name: str) -> bool:
    """Return whether a class of the object keeps the attribute of this name elsewhere than in the dictionary."""
    kept = next((members_of(base)[name] for base in mro_of(type(obj)) if name in members_of(base)), None)
    return is_a(kept, (types.MemberDescriptorType, types.GetSetDescriptorType))


class InstanceDict(LazyLookup, dict):
    """`handle.__dict__`.  A dict by type; every method goes through the world."""

    __slots__ = ("_obj", "_world")

    def __init__(self, world: World, obj: Any) -> None:
        self._world = world
        self._obj = obj

    @staticmethod
    def of(world: World, obj: Any) -> InstanceDict:
        """The one view of this object's dictionary."""
        own = own_dict(obj)
        known = world.memo.get(id(own))
        if known is not None and is_a(known.seen, InstanceDict):
            return known.seen
        origin = (world.origin_of(obj) or const(obj)).to("dict")
        world.guard(origin, "TYPE", dict)
        return world.register(own, InstanceDict(world, obj), origin, mutable=False)

    def plain(self) -> dict[str, Any]:
        return self.copy()

    def _names(self) -> list[str]:
        world, obj = self._world, self._obj
        own = own_dict(obj)
        own = {} if own is None else own
        world.guard((world.origin_of(obj) or const(obj)).to("dict"), "KEYS", tuple(own))
        stays = [n for n in own if (id(obj), n) not in world.overlay.reentered or _in_slot(obj, n)]
        names = [n for n in stays if world.overlay.get((id(obj), n), ABSENT) is not DELETED or _in_slot(obj, n)]
        if is_a(obj, types.ModuleType) and any(owner == id(own) for owner, _ in world.overlay):
            raise Interrupt("unsupported-code", "a walk over globals that were written")
        added = [
            n
            for (owner, n), value in world.overlay.items()
            if owner == id(obj) and value is not DELETED and n not in stays
        ]
        return names + [n for n in added if not _in_slot(obj, n)]

    def _find(self, name: Any) -> Any:
        if is_a(name, str):
            return instance_entry(self._world, self._obj, name)
        if type(name).__hash__ is None or type(name) is tuple:  # raises where there is none
            {}.get(name)  # in the words of a dictionary
        return ABSENT

    def _writable(self, name: Any) -> None:
        if is_a(self._obj, types.ModuleType):  # functions of the module read these places as globals
            raise Interrupt("effect-object", f"the globals of {self._obj.__name__}")
        if is_a(name, str) and _in_slot(self._obj, name):  # one name for two places
            raise Interrupt("effect-object", f"{qualname_of(type(self._obj))}.__dict__[{name!r}] beside a slot")

    def __setitem__(self, name: str, value: Any) -> None:
        self._writable(name)
        self._world.put(self._obj, name, value)
        self._world.write("setdict", self._obj, name, value)
        _core.forget(self._obj, name)

    def __delitem__(self, name: str) -> None:
        self._writable(name)
        if name not in self:
            raise KeyError(name)
        self._world.overlay[(id(self._obj), name)] = DELETED
        self._world.write("deldict", self._obj, name, None)
        _core.forget(self._obj, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __bool__(self) -> bool:
        return bool(self._names())

    def keys(self) -> Any:
        return self._watched().keys()

    def values(self) -> Any:
        return self._watched().values()

    def items(self) -> Any:
        return self._watched().items()

    def _watched(self) -> dict[str, Any]:
        """For views, which would show what is written later.  One that leaves is of the real dictionary."""
        world, obj, copy = self._world, self._obj, self.copy()
        world.effects.viewed.add(id(obj))
        world.keep.append(copy)
        world.by_seen[id(copy)] = External(own_dict(obj), copy, (world.origin_of(obj) or const(obj)).to("dict"))
        return copy

    def copy(self) -> dict[str, Any]:
        return {name: self[name] for name in self._names()}

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            value = self[name]
            del self[name]
            return value
        if default:
            return default[0]
        raise KeyError(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Any, **more: Any) -> None:
        for name, value in dict(*others, **more).items():
            self[name] = value

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ne__(self, other: object) -> bool:
        return self.copy() != other

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names())

    def clear(self) -> None:
        for name in self._names():
            del self[name]

    def popitem(self) -> tuple[str, Any]:
        names = self._names()
        if not names:
            raise KeyError("popitem(): dictionary is empty")
        return names[-1], self.pop(names[-1])


InstanceDict.__name__ = "dict"  # as CPython's errors say it
World.view_of = staticmethod(InstanceDict.of)

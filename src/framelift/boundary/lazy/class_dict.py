"""A class's `__dict__` as captured code sees it: a read-only mapping over the real one and the pending writes.

Entries are imported one by one as they are read; what was not there is guarded too.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ..._core import is_a
from ...guards.checks import check
from ...vocabulary.class_reads import flags_of, members_of, mro_of, name_of
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..gateway import let_in
from ..records import ABSENT
from ..world import World
from .view import LazyLookup

_HEAP_TYPE = 1 << 9


def class_dict(world: World, cls: type) -> types.MappingProxyType[str, Any]:
    """Return the view that captured code sees for `cls.__dict__`."""
    setter = world.classes.lookup(type(cls), "__setattr__")
    if setter is not type.__setattr__ and not is_a(setter, types.FunctionType):
        # Some metaclasses of C code write there unnoticed: neither lookups nor guards would see it.
        raise Interrupt("opaque-object", f"the __dict__ of a {name_of(type(cls))}")
    return types.MappingProxyType(ClassDict(world, cls))


def class_entry_is_there(world: World, cls: type, name: str) -> bool:
    """Return whether an external class itself defines a name, guarded."""
    there = name in members_of(cls)
    if not flags_of(cls) & _HEAP_TYPE:
        return there
    if there:  # a lookup would continue with the bases
        world.guard(const(cls), "CHECK", (functools.partial(_defines, name, True), f"defines {name}"), name)
    elif any(name in members_of(base) for base in mro_of(cls)):
        asked = functools.partial(_defines, name, False)
        world.guard(const(cls), "CHECK", (asked, f"does not define {name}"), name)
    else:
        world.guard(const(cls), "NO_LOOKUP", name, name)
    return there


@check
def _defines(name: str, there: bool, now: type) -> bool:
    return (name in members_of(now)) is there


@check
def _defines_all(names: tuple[str, ...], now: type) -> bool:
    return tuple(members_of(now)) == names


class ClassDict(LazyLookup, Mapping[str, Any]):
    """The mapping inside the proxy."""

    def __init__(self, world: World, cls: type) -> None:
        self._world = world
        self._cls = cls

    def _names(self) -> list[str]:
        world, cls = self._world, self._cls
        own = tuple(members_of(cls))
        if flags_of(cls) & _HEAP_TYPE:
            asked = functools.partial(_defines_all, own)
            world.guard(const(cls), "CHECK", (asked, f"defines {len(own)} names"), "names")
        return [*own, *(name for owner, name in world.overlay if owner == id(cls) and name not in own)]

    def _find(self, name: Any) -> Any:
        world, cls = self._world, self._cls
        pending = world.overlay.get((id(cls), name), ABSENT)
        if pending is not ABSENT:
            return pending
        if not is_a(name, str) or not class_entry_is_there(world, cls, name):
            return ABSENT
        return let_in(world, members_of(cls)[name], const(cls).to("lookup", name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def copy(self) -> dict[str, Any]:
        """A dictionary of all entries."""
        return {name: self[name] for name in self._names()}

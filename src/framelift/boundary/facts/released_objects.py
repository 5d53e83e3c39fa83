"""External objects that captured code released: its pending writes removed them from their places.

Outside nothing is changed before the entry runs, so they live on while captured code runs; in eager mode they may be
dead by then.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..._core import id, is_a, type_lookup
from ...vocabulary.class_reads import members_of, qualname_of
from ...vocabulary.reasons import Interrupt
from ..attributes.owners import own_dict
from ..becomes.leaves import is_constant, is_leaf
from ..world import World
from .finalisers import end_acts

#: a search through more objects than these is given up
_MOST = 20_000


def reached(world: World) -> dict[int, Any] | None:
    """Return all that led from what captured code let go of, by id; None where that is too much."""
    waiting = [one for one in _let_go(world, _all_of) if not is_leaf(one)]
    seen = {id(one): one for one in waiting}
    while waiting:
        whole = waiting.pop()
        for part in () if _holds_nothing(whole) else _parts(whole):
            if id(part) not in seen and not is_leaf(part):
                seen[id(part)] = part
                waiting.append(part)
        if len(seen) > _MOST:
            return None
    return seen


def lets_go(world: World, more: Iterable[Any] = ()) -> bool:
    """Return whether what captured code let go of, or `more`, may hold an object."""
    return any(not _holds_nothing(one) for one in [*_let_go(world, _all_of), *more])


def check_endings(world: World) -> None:
    """A finaliser of what captured code let go of would run when the entry writes, among effects that came later."""
    found = next((one for one in _let_go(world, _in_slot) if end_acts(one)), None)
    if found is not None:
        stop = Interrupt("unsupported-code", f"code that lets go of a {qualname_of(type(found))}, whose end runs code,")
        stop.run_eagerly = True
        raise stop


def root_of(world: World, target: Any) -> Any:
    """The root's argument, as captured code sees it, that the way to an object begins with; None: it is elsewhere."""
    record = world.by_seen.get(id(target))
    if record is None:
        return None
    place = record.origin
    while place.base is not None:
        place = place.base
    if place.step != "arg":
        return None
    return next((one.seen for one in world.memo.values() if one.origin == place), None)


def _holds_nothing(value: Any) -> bool:
    return (
        is_leaf(value)
        or is_a(value, (torch.Tensor, type, types.ModuleType))
        or is_constant(value)
        and not is_a(value, types.FunctionType)
    )


def _parts(value: Any) -> Iterable[Any]:
    if is_a(value, types.FunctionType):  # not by way of its module
        return [
            *(value.__closure__ or ()),
            *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values(),
            value.__dict__,
        ]
    return gc.get_referents(value)


#: effects that put something beside what is there
_ADDING = frozenset(("append", "call"))


def _let_go(world: World, otherwise: Callable[[Any, Any], Iterable[Any]]) -> Iterator[Any]:
    """Yield the objects that pending writes remove from their places; `otherwise(owner, key)` for unknown places."""
    last = {(e.kind, id(e.owner), _name(e.key)): e for e in world.effects if e.kind not in _ADDING}
    for effect in last.values():
        put_back = _outside(world, effect.value)
        found = _at(_outside(world, effect.owner), effect.key, otherwise)
        yield from (one for one in found if one is not put_back)
    for shadow in world.shadows.values():
        now = {id(part) for part in _contents(shadow.copy)}
        for part in _contents(shadow.before):
            if id(part) not in now:
                yield _outside(world, part)
        if not now:  # an iterator that came to its end
            yield from gc.get_referents(shadow.original)


def _all_of(owner: Any, _key: Any) -> Iterable[Any]:
    return gc.get_referents(owner)


def _in_slot(owner: Any, key: Any) -> Iterable[Any]:
    """Return the content of a slot. Other attributes that C code keeps (names, code) have no end that is observable."""
    found = type_lookup(type(owner), key, None) if type(key) is str else None
    try:
        return [found.__get__(owner)] if type(found) is types.MemberDescriptorType else []
    except AttributeError:  # it is empty
        return []


def _outside(world: World, value: Any) -> Any:
    record = world.by_seen.get(id(value))
    return value if record is None else record.original


def _name(key: Any) -> Any:
    """A key to tell writes apart by, without the program's code."""
    return key if type(key) is str else id(key)


def _at(owner: Any, key: Any, otherwise: Callable[[Any, Any], Iterable[Any]]) -> Iterable[Any]:
    """Return the external content of the place of a pending write."""
    if is_a(owner, type):
        return [members_of(owner).get(key)]
    table = owner if type(owner) is dict else own_dict(owner) if is_a(key, str) else None
    if table is not None and (is_leaf(key) or is_constant(key)):
        if key in table:
            return [table[key]]
        if table is owner or type_lookup(type(owner), key, None) is None:
            return []
    return otherwise(owner, key)


def _contents(container: Any) -> list[Any]:
    if is_a(container, dict):
        return [*dict.keys(container), *dict.values(container)]
    return gc.get_referents(container)

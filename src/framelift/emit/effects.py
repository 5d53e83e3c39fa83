"""Effects: one small function per kind of change, its docstring the Python statement it stands for."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable

from ..reasons import Interrupt
from .hashing import check_keys
from .instances import set_raw
from .recipe import Node, Text, Walk, type_name
from .scene import Effect
from .typefacts import is_attribute_name, sets_plainly

__all__ = ["EFFECTS", "effect", "effect_statement", "merged"]

Writer = Callable[[Walk, Effect, str], Text]

#: kind -> the statement it stands for
EFFECTS: dict[str, Writer] = {}


def effect(kind: str) -> Callable[[Writer], Writer]:
    """Register what a kind of effect does, as `writer(walk, effect, text of the owner)`."""
    def register(writer: Writer) -> Writer:
        assert kind not in EFFECTS, kind
        EFFECTS[kind] = writer
        return writer
    return register


def effect_statement(walk: Walk, change: Effect) -> Text:
    """The statement of one effect."""
    writer = EFFECTS.get(change.kind)
    if writer is None:
        raise Interrupt("effect-object", f"{type_name(type(change.owner))} ({change.kind})")
    owner = walk.part(change.owner)
    if type(owner) is Node:
        raise Interrupt("effect-object", f"{type_name(type(change.owner))} made inside")
    return writer(walk, change, owner)


def merged(effects: Iterable[Effect]) -> list[Effect]:
    """The effects in order, where a later write to the same place replaces the value of an earlier one."""
    out: list[Effect] = []
    places: dict[tuple[str, int, str | None], int] = {}
    for change in effects:
        kind, key = change.kind, change.key
        place = (kind.removeprefix("del").removeprefix("set"), id(change.owner), key)
        if not (key is None or type(key) is str):
            out.append(change)
        elif kind.startswith("del"):
            places.pop(place, None)
            out.append(change)
        elif place in places:
            out[places[place]] = dataclasses.replace(out[places[place]], value=change.value)
        else:
            places[place] = len(out)
            out.append(change)
    return out


@effect("setattr")
def _setattr(walk: Walk, change: Effect, owner: str) -> Text:
    """object.__setattr__(owner, key, value)"""
    return set_raw(walk, owner, type(change.owner), change.key, walk.part(change.value))


@effect("delattr")
def _delattr(walk: Walk, change: Effect, owner: str) -> Text:
    """object.__delattr__(owner, key)"""
    if sets_plainly(type(change.owner)) and is_attribute_name(change.key):
        return (f"del {owner}.{change.key}",)
    return (f"{walk.constant(object, 'object')}.__delattr__({owner}, {change.key!r})",)


@effect("tensorattr")
def _tensorattr(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.key = value"""
    if is_attribute_name(change.key):
        return (f"{owner}.{change.key} = ", walk.part(change.value))
    return (walk.constant(setattr, "setattr"), f"({owner}, {change.key!r}, ", walk.part(change.value), ")")


@effect("deltensorattr")
def _deltensorattr(walk: Walk, change: Effect, owner: str) -> Text:
    """del owner.key"""
    return (f"{walk.constant(delattr, 'delattr')}({owner}, {change.key!r})",)


@effect("settype")
def _settype(walk: Walk, change: Effect, owner: str) -> Text:
    """type.__setattr__(owner, key, value)"""
    return (walk.constant(type, "type"), f".__setattr__({owner}, {change.key!r}, ", walk.part(change.value), ")")


@effect("deltype")
def _deltype(walk: Walk, change: Effect, owner: str) -> Text:
    """type.__delattr__(owner, key)"""
    return (f"{walk.constant(type, 'type')}.__delattr__({owner}, {change.key!r})",)


@effect("setmodule")
def _setmodule(walk: Walk, change: Effect, owner: str) -> Text:
    """types.ModuleType.__setattr__(owner, key, value)"""
    kind = walk.constant(types.ModuleType, "ModuleType")
    return (kind, f".__setattr__({owner}, {change.key!r}, ", walk.part(change.value), ")")


@effect("delmodule")
def _delmodule(walk: Walk, change: Effect, owner: str) -> Text:
    """types.ModuleType.__delattr__(owner, key)"""
    return (f"{walk.constant(types.ModuleType, 'ModuleType')}.__delattr__({owner}, {change.key!r})",)


@effect("setglobal")
def _setglobal(walk: Walk, change: Effect, owner: str) -> Text:
    """owner[key] = value"""
    return (f"{owner}[{change.key!r}] = ", walk.part(change.value))


@effect("delglobal")
def _delglobal(_walk: Walk, change: Effect, owner: str) -> Text:
    """del owner[key]"""
    return (f"del {owner}[{change.key!r}]",)


@effect("setitem")
def _setitem(walk: Walk, change: Effect, owner: str) -> Text:
    """dict.__setitem__(owner, key, value)"""
    check_keys(walk, iter((change.key,)), type(change.owner), "effect-object")
    parts = walk.part(change.key), walk.part(change.value)
    return (walk.constant(dict, "dict"), f".__setitem__({owner}, ", parts[0], ", ", parts[1], ")")


@effect("delitem")
def _delitem(walk: Walk, change: Effect, owner: str) -> Text:
    """dict.__delitem__(owner, key)"""
    check_keys(walk, iter((change.key,)), type(change.owner), "effect-object")
    return (walk.constant(dict, "dict"), f".__delitem__({owner}, ", walk.part(change.key), ")")


@effect("setcell")
def _setcell(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.cell_contents = value"""
    return (f"{owner}.cell_contents = ", walk.part(change.value))


@effect("delcell")
def _delcell(_walk: Walk, _change: Effect, owner: str) -> Text:
    """del owner.cell_contents"""
    return (f"del {owner}.cell_contents",)

"""Effects: one small function per kind of change, its docstring the Python statement it stands for."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable

from .. import _core
from ..vocabulary.reasons import Interrupt
from .hashing import check_keys
from .instances import PLAIN_READS, set_raw
from .recipe import Node, Text, Walk, type_name
from .scene import Effect
from .typefacts import is_attribute_name, lookup

__all__ = ["EFFECTS", "effect", "effect_statement", "merged"]

#: values that an attribute often holds already: writing them again would only cost the guards on its owner their short
#: cut
_SETTLING = (type(None), bool, str)

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
    """The effects in order, where a later write to the same place replaces the value of an earlier one.

    The place in order stays the first one's, since that is where an attribute enters its dictionary.
    """
    out: list[Effect] = []
    last: dict[tuple[int, str | None], int] = {}
    for change in effects:
        place = (id(change.owner), change.key) if change.key is None or type(change.key) is str else None
        index = last.get(place, -1) if place is not None else -1
        if index >= 0 and out[index].kind == change.kind and not change.kind.startswith("del"):
            out[index] = dataclasses.replace(out[index], value=change.value)
            continue
        if place is not None:
            last[place] = len(out)
        out.append(change)
    return out


@effect("setattr")
def _setattr(walk: Walk, change: Effect, owner: str) -> Text:
    """object.__setattr__(owner, key, value)"""
    if type(change.value) in _SETTLING:
        return (walk.constant(_core.store, "store"), f"({owner}, {change.key!r}, ", walk.part(change.value), ")")
    return set_raw(walk, owner, type(change.owner), change.key, walk.part(change.value))


@effect("delattr")
def _delattr(walk: Walk, change: Effect, owner: str) -> Text:
    """object.__delattr__(owner, key)"""
    if type(lookup(type(change.owner), change.key)) is types.MemberDescriptorType:
        return (f"{walk.constant(object, 'object')}.__delattr__({owner}, {change.key!r})",)
    return _deldict(walk, change, owner)


@effect("setdict")
def _setdict(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.__dict__[key] = value"""
    check_keys(walk, iter((change.key,)), dict, "effect-object")
    return (_dictionary(walk, change, owner), "[", walk.part(change.key), "] = ", walk.part(change.value))


@effect("deldict")
def _deldict(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.__dict__.pop(key, None)"""
    # Captured code may have made what it deleted: the outside then never had it.
    check_keys(walk, iter((change.key,)), dict, "effect-object")
    return (_dictionary(walk, change, owner), ".pop(", walk.part(change.key), ", None)")


def _dictionary(walk: Walk, change: Effect, owner: str) -> str:
    if lookup(type(change.owner), "__getattribute__") in PLAIN_READS:
        return f"{owner}.__dict__"
    return f"{walk.constant(object, 'object')}.__getattribute__({owner}, '__dict__')"


@effect("tensorattr")
def _tensorattr(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.key = value"""
    if is_attribute_name(change.key):
        return (f"{owner}.{change.key} = ", walk.part(change.value))
    return (walk.constant(setattr, "setattr"), f"({owner}, {change.key!r}, ", walk.part(change.value), ")")


@effect("deltensorattr")
def _deltensorattr(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.__dict__.pop(key, None), as with any object's attributes"""
    return (f"{owner}.__dict__.pop({change.key!r}, None)",)


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
    """owner.__dict__.pop(key, None)"""
    return _deldict(walk, change, owner)


@effect("setglobal")
def _setglobal(walk: Walk, change: Effect, owner: str) -> Text:
    """owner[key] = value"""
    return (f"{owner}[{change.key!r}] = ", walk.part(change.value))


@effect("delglobal")
def _delglobal(_walk: Walk, change: Effect, owner: str) -> Text:
    """owner.pop(key, None)"""
    return (f"{owner}.pop({change.key!r}, None)",)


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


@effect("append")
def _append(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.append(value)"""
    return (f"{owner}.append(", walk.part(change.value), ")")


@effect("add")
def _add(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.add(value)"""
    return (f"{owner}.add(", walk.part(change.value), ")")


@effect("setcell")
def _setcell(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.cell_contents = value"""
    return (f"{owner}.cell_contents = ", walk.part(change.value))


@effect("delcell")
def _delcell(_walk: Walk, _change: Effect, owner: str) -> Text:
    """del owner.cell_contents"""
    return (f"del {owner}.cell_contents",)


@effect("setvar")
def _setvar(walk: Walk, change: Effect, owner: str) -> Text:
    """owner.set(value)"""
    return (f"{owner}.set(", walk.part(change.value), ")")


@effect("decimal")
def _decimal(walk: Walk, change: Effect, owner: str) -> Text:
    """set_decimal_context(*value)"""
    return (f"{owner}(*", walk.part(change.value), ")")


@effect("call")
def _call(walk: Walk, change: Effect, owner: str) -> Text:
    """owner(*value); `key` only distinguishes calls of one owner"""
    parts = [part for value in change.value for part in (", ", walk.part(value))][1:]
    return (f"{owner}(", *parts, ")")

"""Effects: for each kind of change the Python statement it stands for, as a text or a small function."""

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

#: values that an attribute often holds already: writing them again would only cost the guards on its owner their short
#: cut
_SETTLING = (type(None), bool, str)

Writer = Callable[[Walk, Effect, str], Text]

#: kind -> the statement it stands for
EFFECTS: dict[str, Writer] = {}
#: the same for kinds whose effects are one statement, which comes before those of the others
TOGETHER: dict[str, Callable[[Walk, list[Effect]], Text]] = {}


def effect(kind: str) -> Callable[[Writer], Writer]:
    """Register what a kind of effect does, as `writer(walk, effect, text of the owner)`."""

    def register(writer: Writer) -> Writer:
        assert kind not in EFFECTS, kind
        EFFECTS[kind] = writer
        return writer

    return register


def _written(text: str) -> Writer:
    """The writer of a statement that is a text with holes."""
    before, value, after = text.partition("{value}")

    def writer(walk: Walk, change: Effect, owner: str) -> Text:
        head = before.format(owner=owner, key=change.key)
        return (head, walk.part(change.value), after) if value else (head,)

    return writer


#: kinds whose statement is a text with holes
_TEXTS = {
    "append": "{owner}.append({value})",
    "delcell": "del {owner}.cell_contents",
    "delglobal": "{owner}.pop({key!r}, None)",
    "deltensorattr": "{owner}.__dict__.pop({key!r}, None)",
    "setcell": "{owner}.cell_contents = {value}",
    "setglobal": "{owner}[{key!r}] = {value}",
    "setvar": "{owner}.set({value})",
}
EFFECTS.update({kind: _written(text) for kind, text in _TEXTS.items()})


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


@effect("settype")
def _settype(walk: Walk, change: Effect, owner: str) -> Text:
    """type.__setattr__(owner, key, value)"""
    return (walk.constant(type, "type"), f".__setattr__({owner}, {change.key!r}, ", walk.part(change.value), ")")


@effect("call")
def _call(walk: Walk, change: Effect, owner: str) -> Text:
    """owner(*value); `key` only distinguishes calls of one owner"""
    parts = [part for value in change.value for part in (", ", walk.part(value))][1:]
    return (f"{owner}(", *parts, ")")

"""Arrays of numbers (`array.array`)."""

from __future__ import annotations

import functools
from array import array
from typing import Any

from ..boundary.becomes.containers import CopyRule, LetIn
from ..boundary.records import Shadow
from ..boundary.world import World
from ..exits.instances import Base
from ..exits.recipe import Node, Recipe, Text, Walk
from ..guards.checks import check
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt
from .feature import Feature, register

_TYPECODE: Any = vars(array)["typecode"].__get__


def _contents(value: Any) -> tuple[str, bytes]:
    return _TYPECODE(value), array.tobytes(value)


@check
def _holds(held: tuple[str, bytes], value: Any) -> bool:
    return _contents(value) == held


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    held = _contents(value)
    numbers = array.__len__(value)
    world.guard(origin, "CHECK", (functools.partial(_holds, held), f"has the same {numbers} numbers ({held[0]})"))
    array.frombytes(copy, held[1])


def _made(walk: Walk, value: Any) -> Text:
    code, data = _contents(value)
    return (walk.constant(array, "array"), f"({code!r}, ", walk.constant(data, "data"), ")")


def _changes(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    before, after = shadow.before[1], array.tobytes(shadow.copy)
    if before == after:
        return []
    if len(before) != len(after):  # which fails where something looks into its memory
        raise Interrupt("effect-object", "an array.array that became longer or shorter")
    name, whole = walk.constant(array, "array"), walk.constant(slice, "slice")
    return [(name, ".__setitem__(", walk.part(shadow.copy), ", ", whole, "(None), ", *_made(walk, shadow.copy), ")")]


def _built(walk: Walk, node: Node) -> Recipe:
    return Recipe(_made(walk, node.obj))


def _arguments(walk: Walk, value: Any) -> Text:
    code, data = _contents(value)
    return (repr(code), ", ", walk.constant(data, "data"))


register(
    Feature(
        array,
        CopyRule(lambda value: array.__new__(type(value), _TYPECODE(value)), _fill, _contents),
        _changes,
        _built,
        Base(arguments=_arguments),
        any_arguments=("b",),
    )
)

"""Deques."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ..boundary.becomes.containers import CopyRule, LetIn
from ..boundary.records import Shadow
from ..boundary.world import World
from ..exc import InternalError
from ..exits.containers import display
from ..exits.instances import Base, Contents, extend, statement
from ..exits.recipe import Node, Recipe, Text, Walk
from ..exits.write_back import Method, methods, same
from ..vocabulary.origins import Origin
from .feature import Feature, register

_MAXLEN = deque.maxlen.__get__

# ---- what an external one becomes ------------------------------------------------------------------------------------


def _empty(value: Any) -> Any:
    made = deque.__new__(type(value))
    deque.__init__(made, maxlen=_MAXLEN(value))
    return made


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    world.guard(origin, "LEN", deque.__len__(value))
    world.guard(origin.to("attr", "maxlen"), "EQ", _MAXLEN(value))
    for i, item in enumerate(deque.copy(value)):
        deque.append(copy, let_in(world, item, origin.to("item", i)))


# ---- what changed in one, and how one made inside is built -----------------------------------------------------------


def _changes(walk: Walk, shadow: Shadow, kind: type) -> list[Text]:
    before, after = shadow.before, list(deque.__iter__(shadow.copy))
    if same(before, after):
        return []
    call = methods(walk, shadow, kind)
    for drop in range(len(before) + 1):
        kept = len(before) - drop
        if same(before[drop:], after[:kept]):
            start = [call("popleft")] * drop if kept or not drop else [call("clear")]
            return start + _more(walk, call, after[kept:])
        if same(before[:kept], after[len(after) - kept :]) and kept <= len(after):
            return [call("pop")] * drop + [
                call("appendleft", (walk.part(x),)) for x in after[: len(after) - kept][::-1]
            ]
    raise InternalError("a deque cannot become what it became")  # to drop all of it always fits


def _more(walk: Walk, call: Method, items: Sequence[Any]) -> list[Text]:
    if len(items) == 1:
        return [call("append", (walk.part(items[0]),))]
    return [call("extend", display(walk, items))] if items else []


def _built(walk: Walk, node: Node) -> Recipe:
    name, limit = walk.constant(deque, "deque"), walk.part(node.obj.maxlen)
    shown = display(walk, node.obj)
    make = (name, "(", *shown, ")") if limit == "None" else (name, "(", *shown, ", ", limit, ")")
    return Recipe(make, (name, "((), ", limit, ")"), ((node, ".extend(", *shown, ")"),))


def _contents(walk: Walk, node: Node) -> Contents:
    limit = walk.part(deque.maxlen.__get__(node.obj))
    fills, complete_first = extend(deque, "extend")(walk, node)
    return (statement(walk, deque, "__init__", node, "()", limit), *fills), complete_first


register(
    Feature(
        deque,
        CopyRule(_empty, _fill, lambda copy: list(deque.__iter__(copy)), refill="extend"),
        _changes,
        _built,
        Base(contents=_contents),
    )
)

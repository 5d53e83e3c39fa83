"""Ordered dictionaries.  Their order is one of their own, which changes while the entries stay."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import _core
from ..boundary.attributes.instances import TABLES
from ..boundary.becomes.containers import CopyRule, LetIn, key_inside
from ..boundary.world import World
from ..exits.containers import pairs
from ..exits.hashing import check_keys
from ..exits.instances import Base, instance, mapping
from ..exits.recipe import Node, Recipe, Text, Walk
from ..exits.typefacts import is_shared
from ..exits.write_back import table_changes
from ..vocabulary.origins import Origin
from .feature import Feature, register


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    world.guard(origin, "KEYS", tuple(OrderedDict.keys(value)))
    for key in OrderedDict.keys(value):
        item = dict.__getitem__(value, key)
        OrderedDict.__setitem__(copy, key_inside(world, key, let_in), let_in(world, item, origin.to("item", key)))


def _built(walk: Walk, node: Node) -> Recipe:
    attributes = vars(node.obj)
    if attributes or is_shared(attributes):
        return instance(walk, node)
    name = walk.constant(OrderedDict, "OrderedDict")
    complete_first = check_keys(walk, iter(node.obj), OrderedDict)
    shown = pairs(walk, node.obj.items())
    return Recipe(
        (name, "(", *shown, ")"), (name, "()"), ((node, ".update(", *shown, ")"),), complete_first=complete_first
    )


def _at_once(walk: Walk, name: str | Node, dictionary: str | Node, contents: tuple[Text, ...]) -> Text:
    entries = [part for statement in contents for part in (", ", statement[4], ", ", statement[6])]
    return (walk.constant(_core.ordered, "ordered"), "(", name, ", ", dictionary, *entries, ")")


TABLES.add(OrderedDict)  # hooks of modules, asked for at every call of one
register(
    Feature(
        OrderedDict,
        CopyRule(
            lambda value: OrderedDict.__new__(type(value)),
            _fill,
            lambda copy: dict(OrderedDict.items(copy)),
            refill="update",
        ),
        table_changes,
        _built,
        Base(contents=mapping(OrderedDict, False), at_once=_at_once),
    )
)

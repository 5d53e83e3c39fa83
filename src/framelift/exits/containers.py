"""Recipes of the built-in containers, exact types only; their Python subclasses are instances (instances.py)."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import Any

from ..boundary.becomes.containers import behind
from ..vocabulary.plain_types import DICTIONARIES
from ..vocabulary.reasons import Interrupt
from .hashing import check_keys, insertion_order
from .leaves import is_kept_as_is
from .recipe import Node, Recipe, Text, Walk, exact, joined

#: from here on, containers of nothing but plain values are copied from a constant instead of being spelled out
_MANY = 32


def display(walk: Walk, items: Iterable[Any], opening: str = "(", closing: str = ")") -> Text:
    """The elements as a display; a constant is unpacked where many values would make a long text."""
    items = tuple(items)
    if len(items) > _MANY and all(is_kept_as_is(walk, item) for item in items):
        return (opening, "*", walk.constant(items, "values"), "," if closing == ")" else "", closing)
    comma = "," if closing == ")" and len(items) == 1 else ""
    return (opening, *joined(map(walk.part, items)), comma, closing)


def pairs(walk: Walk, items: Iterable[tuple[Any, Any]]) -> Text:
    """Keys and values as a dict display."""
    items = tuple(items)
    if len(items) > _MANY and all(is_kept_as_is(walk, key) and is_kept_as_is(walk, value) for key, value in items):
        return ("{**", walk.constant(dict(items), "values"), "}")
    out: list[str | Node] = ["{"]
    for key, value in items:
        out += (walk.part(key), ": ", walk.part(value), ", ")
    out[-1] = "}" if items else "{}"
    return tuple(out)


@exact(list)
def _list(walk: Walk, node: Node) -> Recipe:
    shown = display(walk, node.obj, "[", "]")
    return Recipe(shown, ("[]",), ((node, ".extend(", *shown, ")"),))


@exact(tuple)
def _tuple(walk: Walk, node: Node) -> Recipe:
    if len(node.obj) > _MANY and all(is_kept_as_is(walk, item) for item in node.obj):
        return Recipe((walk.constant(node.obj, "values"),))
    if (
        node.obj
        and all(is_kept_as_is(walk, item) for item in node.obj)
        and walk.spelled.setdefault((*map(type, node.obj), node.obj), node.obj) is not node.obj
    ):
        # spelled out again, it would be the same object as the other
        return Recipe((walk.constant(node.obj, "values"),))
    return Recipe(display(walk, node.obj))


@exact(dict)
def _dict(walk: Walk, node: Node) -> Recipe:
    complete_first = check_keys(walk, iter(node.obj), dict)
    shown = pairs(walk, node.obj.items())
    return Recipe(shown, ("{}",), ((node, ".update(", *shown, ")"),), complete_first=complete_first)


@exact(set)
def _set(walk: Walk, node: Node) -> Recipe:
    items = insertion_order(tuple(node.obj), set)
    complete_first = check_keys(walk, iter(items), set)
    name, shown = walk.constant(set, "set"), display(walk, items)
    return Recipe(
        (name, "(", *(shown if items else ()), ")"),
        (name, "()"),
        ((node, ".update(", *shown, ")"),),
        complete_first=complete_first,
    )


@exact(frozenset)
def _frozenset(walk: Walk, node: Node) -> Recipe:
    items = insertion_order(tuple(node.obj), frozenset)
    complete_first = check_keys(walk, iter(items), frozenset)
    return Recipe(
        (walk.constant(frozenset, "frozenset"), "(", *(display(walk, items) if items else ()), ")"),
        complete_first=complete_first,
    )


@exact(collections.defaultdict)
def _default(walk: Walk, node: Node) -> Recipe:
    name, factory = walk.constant(collections.defaultdict, "defaultdict"), walk.part(node.obj.default_factory)
    complete_first = check_keys(walk, iter(node.obj), collections.defaultdict)
    shown = pairs(walk, node.obj.items())
    fills = ((node, ".default_factory = ", factory), (node, ".update(", *shown, ")"))
    return Recipe((name, "(", factory, ", ", *shown, ")"), (name, "()"), fills, complete_first=complete_first)


@exact(types.MappingProxyType)
def _proxy(walk: Walk, node: Node) -> Recipe:
    table = behind(node.obj)
    if type(table) not in DICTIONARIES:  # of a class, among others
        raise Interrupt("result-object", "mappingproxy")
    return Recipe((walk.constant(types.MappingProxyType, "MappingProxyType"), "(", walk.part(table), ")"))

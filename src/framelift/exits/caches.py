"""Calls of external functools.lru_caches: an entry makes them in the order of the program, in one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .. import _core
from .._core import id
from ..boundary.records import CacheCall, Effect
from .recipe import Node, Text, Walk, joined


def cache_calls(walk: Walk, calls: list[Effect]) -> Text:
    """ask_caches(((cache, args, kwargs, answer, inner), ...))"""
    return (walk.constant(ask_caches, "ask_caches"), "(", *_rows(walk, calls), ")")


def _rows(walk: Walk, calls: Iterable[Effect]) -> list[str | Node]:
    rows: list[str | Node] = ["("]
    for change in calls:
        call: CacheCall = change.value
        answer = walk.part(call.answer)
        args = [walk.part(value) for value in call.args]
        named = [part for name, value in call.kwargs.items() for part in (f", {name!r}: ", walk.part(value))][1:]
        if call.kwargs:
            named.insert(0, f"{next(iter(call.kwargs))!r}: ")
        walk.cache_calls.append((call, answer))
        walk.in_cache_calls.update(part for part in (answer, *args, *named) if type(part) is Node)
        head = ["(", walk.part(change.owner), ", (", *joined(args), ",), {" if args else "), {", *named, "}, ", answer]
        rows += [*head, ", ", *_rows(walk, call.inner), "), "]
    return [*rows, ")"]


def ask_caches(rows: Iterable[Any], real: dict[int, Any] | None = None) -> None:
    """Call caches, whose functions give answers that are made already.

    `real`: what they gave instead, since they held it, by the id of what was made.
    """
    real = {} if real is None else real
    for cache, args, kwargs, answer, inner in rows:
        if inner and _core.cached_answer(cache, args, kwargs) is None:
            ask_caches(inner, real)
        if real:
            args = tuple([real.get(id(value), value) for value in args])
            kwargs = {name: real.get(id(value), value) for name, value in kwargs.items()}
        given = _core.cache_answer(cache, args, kwargs, answer)
        if given is not answer:
            real[id(answer)] = given


def settle(walk: Walk) -> None:
    """Tell each call of a cache whether its answer is held by others, when all recipes are known.

    Those to which other answers lead alone are not: these are held by caches, too.
    """
    plain = {call: answer for call, answer in walk.cache_calls if call.is_plain}
    while True:
        inside = {call: _inside(answer) for call, answer in plain.items() if type(answer) is Node}
        mentions = Counter({answer: walk.in_cache_calls[answer] for answer in plain.values() if type(answer) is Node})
        for node in set().union(*inside.values()):
            mentions.update(_parts(node))
        shown = [call for call, nodes in inside.items() if any(node.uses > mentions[node] for node in nodes)]
        if not shown:
            break
        for call in shown:
            del plain[call]
    for call, _ in walk.cache_calls:
        call.settle(call not in plain)


def _parts(node: Node) -> list[Node]:
    recipe = node.recipe
    texts = (recipe.make,) if recipe.make is not None else (recipe.shell, *recipe.fills, recipe.parts)
    return [part for text in texts for part in text or () if type(part) is Node]


def _inside(answer: Node) -> set[Node]:
    """The objects that an answer is made of, itself among them."""
    found, open_ = {answer}, [answer]
    while open_:
        new = {*_parts(open_.pop())} - found
        found |= new
        open_ += new
    return found

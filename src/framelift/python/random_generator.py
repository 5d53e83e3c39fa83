"""Generators of Python's `random` module.

The state is copied, and guarded only when a number is drawn that depends on it (`substitutes/python/python_random.py`).
"""

from __future__ import annotations

from _random import Random
from typing import Any

from ..boundary.becomes.containers import CopyRule, LetIn
from ..boundary.records import Shadow
from ..boundary.world import World
from ..exits.instances import Base, Contents, instance, statement
from ..exits.recipe import Node, Text, Walk
from ..vocabulary.origins import Origin
from .feature import Feature, register


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    Random.setstate(copy, Random.getstate(value))


def _snapshot(copy: Any) -> list[Any]:
    """Return its state in a list, which is emptied when captured code gives the generator a state: that one is written
    back, whatever the state was before.
    """
    return [Random.getstate(copy)]


def _changes(walk: Walk, shadow: Shadow, kind: type[Any]) -> list[Text]:
    state = kind.getstate(shadow.copy)
    if [state] == shadow.before:
        return []
    return [(walk.constant(kind, "Generator"), ".setstate(", walk.part(shadow.copy), ", ", walk.part(state), ")")]


def _contents(walk: Walk, node: Node) -> Contents:
    """One made inside continues where it was left; `__new__` without a seed has given it any state."""
    return (statement(walk, Random, "setstate", node, walk.part(Random.getstate(node.obj))),), ()


register(
    Feature(
        Random,
        CopyRule(lambda value: Random.__new__(type(value)), _fill, _snapshot),
        _changes,
        instance,
        Base(contents=_contents),
    )
)

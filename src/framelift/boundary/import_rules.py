"""The table of import rules by exact type, and the rules of values that hold no others: leaves, constants, numbers,
generators; and placeholders for what has no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import is_a
from ..graph.symbols.declared_sizes import check_declared
from ..graph.symbols.numbers import Int
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import Origin
from .becomes.opaque import Opaque, opaque_for
from .world import World

Rule = Callable[[World, Any, Origin], Any]
RULES: dict[type, Rule] = {}
#: for types and those derived from them, where neither they nor what else is known of them has a rule
BASE_RULES: dict[type, Rule] = {}


def rule(*types_: type) -> Callable[[Rule], Rule]:
    """Register the import rule of exactly these types."""

    def register(function: Rule) -> Rule:
        for cls in types_:
            RULES[cls] = function
        return function

    return register


def let_in_opaque(world: World, value: Any, origin: Origin, reason: str = "opaque-object", detail: str = "") -> Opaque:
    """A placeholder: its class is guarded, any use interrupts."""
    known = world.memo.get(id(value))
    if known is not None:
        if known.origin != origin:
            world.guard(origin, "SAME", known.origin)
        return known.seen
    world.guard(origin, "TYPE", type(value))
    return world.register(value, opaque_for(value, reason, detail), origin)


def leaf(world: World, value: Any, origin: Origin) -> Any:
    """Guarded by equality."""
    world.guard(origin, "EQ", value)
    return value


def nan(world: World, value: Any, origin: Origin) -> Any:
    """Containers find a nan by its identity: so which of them are one object is guarded as for mutable objects."""
    world.guard(origin, "EQ", value)
    return world.register(value, value, origin)


MAY_HAVE_ATTRIBUTES: FeatureState[dict[int, Any]] = FeatureState(dict)  # external properties and their like, by id


def constant(world: World, value: Any, origin: Origin) -> Any:
    """Guarded by identity."""
    world.guard(origin, "IS", value)
    if is_a(value, (property, staticmethod, classmethod)):
        MAY_HAVE_ATTRIBUTES.of(world)[id(value)] = value
    return value


def with_attributes(world: World, value: Any, origin: Origin) -> Any:
    """Itself, but for its attributes: reads of them are guarded, writes are not made before the call ends."""
    _core.mark_external(value)
    return constant(world, value, origin)


def number(world: World, value: Any, origin: Origin) -> Any:
    """A number is a leaf until it was seen to change; then it is symbolic, and only its type is guarded here."""
    if value != value:
        return nan(world, value, origin)
    if world.dynamism.quiet or not world.dynamism.number(value, origin):
        world.guard(origin, "EQ", value)
        return value
    known = world.numbers.get(origin)
    if known is None:
        world.guard(origin, "TYPE", type(value))
        known = world.numbers[origin] = world.tensors.number(value, origin)
        if world.dynamism.declared is not None and type(known) is Int:
            marks = world.dynamism.declared.marks_of_number(origin)
            check_declared(known.home, known.raw, value, marks, 0, str(origin))
    return known


def frozen(world: World, value: Any, origin: Origin) -> Any:
    """A container that is a leaf: guarded by equality, but what is handed back is the very object that came in."""
    world.guard(origin, "EQ", value)
    return world.register(value, value, origin, mutable=False) if value else value

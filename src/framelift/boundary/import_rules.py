"""The table of import rules by exact type, and the rules of values that hold no others: leaves, constants, numbers,
generators; and placeholders for what has no rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..graph.symbols.declared_sizes import check_declared
from ..graph.symbols.numbers import Int
from ..graph.symbols.numpy_numbers import SCALARS
from ..guards.checks import check
from ..guards.equality import indistinguishable
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import Origin, const
from .becomes.arrays import numpy
from .becomes.opaque import Opaque, opaque_for
from .dynamism import UNGUARDED_NUMBERS
from .world import World

Rule = Callable[[World, Any, Origin], Any]
RULES: dict[type, Rule] = {}


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


@check
def _is_no_default(value: Any) -> bool:
    return value is not torch.default_generator


@rule(torch.Generator)
def _generator(world: World, value: torch.Generator, origin: Origin) -> Any:
    """A private generator of the same device, whose state the real one has while a graph runs: no guard on states."""
    if value is torch.default_generator:
        world.guard(origin, "IS", value)
        return world.register(value, value, const(value), mutable=False)
    if value.device.type != "cpu":
        return let_in_opaque(world, value, origin, "torch-operation", f"with a torch.Generator of {value.device}")
    world.guard(origin, "TYPE", torch.Generator)
    world.guard(origin.to("attr", "device"), "EQ", value.device)
    world.guard(origin, "CHECK", (_is_no_default, "is a generator of the program's own"), "generator")
    return world.register(value, world.tensors.drawing.meet(value, origin), origin)


@check
def _is_value_of_numpy(cls: type, parts: tuple[Any, ...], now: Any) -> bool:
    return type(now) is cls and indistinguishable(_parts_of_numpy(now), parts)


def _parts_of_numpy(value: Any) -> tuple[Any, ...]:
    """Return the observable parts of a scalar or dtype of numpy; floats are shown without the bits of a NaN."""
    if is_a(value, numpy.dtype):
        return repr(value), value.metadata is None
    holds_more = is_a(value, numpy.inexact) and value.itemsize <= 16 and not is_a(value, numpy.longdouble)
    return repr(value), value.tobytes() if holds_more else b"", value.dtype.str


def numpy_value(world: World, value: Any, origin: Origin) -> Any:
    """A scalar or dtype of numpy: a value."""
    dtype = getattr(value, "dtype", value)
    if is_a(value, numpy.void) or dtype.hasobject or dtype.metadata is not None:
        return let_in_opaque(world, value, origin)
    if type(value) in SCALARS:
        plain = value.item()
        if world.dynamism.scalar(plain, origin):
            world.guard(origin, "TYPE", type(value))
            world.numbers[origin] = seen = world.tensors.number(value, origin)
            world.register(value, seen, origin)  # which of them are one object is guarded
            # C code that keeps what it is given gets the scalar itself
            world.by_seen[id(value)] = world.by_seen[id(seen)]
            return seen
        UNGUARDED_NUMBERS.of(world)[origin] = plain
    asked = functools.partial(_is_value_of_numpy, type(value), _parts_of_numpy(value))
    world.guard(origin, "CHECK", (asked, f"is {value!r}"))
    return world.register(value, value, origin, mutable=False)


def random_state(world: World, value: Any, origin: Origin) -> Any:
    """A generator is itself: its methods have substitutes, or are not known."""
    world.guard(origin, "TYPE", type(value))
    _core.mark_external(value)
    return world.register(value, value, origin)

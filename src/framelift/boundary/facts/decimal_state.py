"""The decimal context of the thread: captured arithmetic runs in a private copy, and what it changed is an effect.

Operators on decimals read the context from C without any call, so it is guarded as a whole as soon as a decimal exists
inside.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from typing import Any

from ...guards.checks import check
from ...vocabulary.origins import Origin, const
from ...vocabulary.reasons import Interrupt
from ..world import World

_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _state(context: decimal.Context) -> tuple[Any, ...]:
    signals = [tuple(on.__name__ for on, is_on in table.items() if is_on) for table in (context.flags, context.traps)]
    return (*(getattr(context, name) for name in _FIELDS), *signals)


@check
def _has_settings(state: tuple[Any, ...], ask: Callable[[], decimal.Context]) -> bool:
    return _state(ask()) == state


def set_decimal_context(*state: Any) -> None:
    """Give the thread's context these settings; entries call it."""
    _set(decimal.getcontext(), state)


def _set(context: decimal.Context, state: tuple[Any, ...]) -> None:
    for name, value in zip(_FIELDS, state):
        setattr(context, name, value)
    for table, names in zip((context.flags, context.traps), state[len(_FIELDS) :]):
        for signal in table:
            table[signal] = signal.__name__ in names


class _Contexts:
    """The thread's context and the private one that stands for it; called when the rehearsal is over."""

    def __init__(self, outside: decimal.Context) -> None:
        self.outside = outside
        self.inside = _copy(outside)

    def __call__(self) -> None:
        decimal.setcontext(self.outside)


def _copy(context: decimal.Context) -> decimal.Context:
    inside = context.copy()
    for signal in context.flags:  # a copy starts without them
        inside.flags[signal] = context.flags[signal]
    return inside


@check
def _is_context(state: tuple[Any, ...], context: Any) -> bool:
    return type(context) is decimal.Context and _state(context) == state


@check
def _is_current(is_it: bool, context: Any) -> bool:
    return (context is decimal.getcontext()) is is_it


def change_context(context: decimal.Context, *state: Any) -> None:
    """Give a context these settings; entries call it."""
    _set(context, state)


def let_in_context(world: World, value: decimal.Context, origin: Origin) -> Any:
    """A context that is not the thread's own: a private copy, and what is changed of it is an effect."""
    known = enter_decimal(world)
    is_it = value is known.outside
    if is_it:
        inside = known.inside
    else:
        inside, before = _copy(value), _state(value)

        def finish_context() -> None:
            after = _state(inside)
            if after != before:
                world.write("decimal", change_context, origin, (inside, *after))

        world.finishing.append(finish_context)
    world.guard(origin, "CHECK", (functools.partial(_is_context, _state(value)), "has the settings it had"), "decimal")
    said = f"is {'' if is_it else 'not '}the context of the thread"
    world.guard(origin, "CHECK", (functools.partial(_is_current, is_it), said), "current")
    return world.register(value, inside, origin)


def read_default_context(world: World) -> None:
    """A new context takes its settings from `decimal.DefaultContext`, in C code."""
    value: decimal.Context = decimal.DefaultContext
    record = world.memo.get(id(value))
    if record is not None and _state(record.seen) != _state(value):
        raise Interrupt("effect-object", "the default context of decimals")
    said = "has the settings it had"
    world.guard(const(value), "CHECK", (functools.partial(_is_context, _state(value)), said), "decimal")


def enter_decimal(world: World) -> _Contexts:
    """From here on decimals may be used: the context is guarded, and a copy of it takes its place."""
    entered = next((leave for leave in world.leaving if type(leave) is _Contexts), None)
    if entered is not None:
        return entered
    contexts = _Contexts(decimal.getcontext())
    inside, before = contexts.inside, _state(contexts.outside)
    world.guard(
        const(decimal.getcontext),
        "CHECK",
        (functools.partial(_has_settings, before), "() has the settings it had"),
        "decimal",
    )

    def finish_decimal() -> None:
        if decimal.getcontext() is not inside:
            raise Interrupt("effect-object", "the decimal context")
        after = _state(inside)
        if after != before:
            world.write("decimal", set_decimal_context, None, after)

    world.leaving.append(contexts)
    decimal.setcontext(inside)
    world.finishing.append(finish_decimal)
    return contexts

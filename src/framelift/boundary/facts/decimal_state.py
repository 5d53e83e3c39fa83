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
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from ..world import World

__all__ = ["enter_decimal", "set_decimal_context"]

_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _state(context: decimal.Context) -> tuple[Any, ...]:
    signals = [tuple(on.__name__ for on, is_on in table.items() if is_on) for table in (context.flags, context.traps)]
    return (*(getattr(context, name) for name in _FIELDS), *signals)


@check
def _has_settings(state: tuple[Any, ...], ask: Callable[[], decimal.Context]) -> bool:
    return _state(ask()) == state


def set_decimal_context(*state: Any) -> None:
    """Give the thread's context these settings; entries call it."""
    context = decimal.getcontext()
    for name, value in zip(_FIELDS, state):
        setattr(context, name, value)
    for table, names in zip((context.flags, context.traps), state[len(_FIELDS) :]):
        for signal in table:
            table[signal] = signal.__name__ in names


def enter_decimal(world: World) -> None:
    """From here on decimals may be used: the context is guarded, and a copy of it takes its place."""
    if any(getattr(leave, "__name__", "") == "leave_decimal" for leave in world.leaving):
        return
    outside = decimal.getcontext()
    inside, before = outside.copy(), _state(outside)
    for signal in outside.flags:  # a copy starts without them
        inside.flags[signal] = outside.flags[signal]
    world.guard(
        const(decimal.getcontext),
        "CHECK",
        (functools.partial(_has_settings, before), "() has the settings it had"),
        "decimal",
    )

    def leave_decimal() -> None:
        decimal.setcontext(outside)

    def finish_decimal() -> None:
        if decimal.getcontext() is not inside:
            raise Interrupt("effect-object", "the decimal context")
        after = _state(inside)
        if after != before:
            world.write("decimal", set_decimal_context, None, after)

    world.leaving.append(leave_decimal)
    decimal.setcontext(inside)
    world.finishing.append(finish_decimal)

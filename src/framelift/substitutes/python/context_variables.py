"""Context variables: state of the thread, read under guard and written as an effect."""

from __future__ import annotations

import contextvars
import sys
from typing import Any

from ... import _core
from ...boundary.gateway import let_in
from ...boundary.records import ABSENT
from ...calls.call_tables import substitute
from ...recording.session import Session
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

_UNSET = object()


def value_of(variable: Any) -> Any:
    """The variable's value in the current context; raises LookupError where it has none."""
    return variable.get()


class Token:
    """The result of `ContextVar.set` inside: enough for `reset`."""

    __slots__ = ("old_value", "var")

    def __init__(self, var: Any, old_value: Any) -> None:
        self.var = var
        self.old_value = old_value

    if sys.version_info >= (3, 14):

        def __enter__(self) -> Token:
            return self

        def __exit__(self, *_: object) -> None:
            _core.captured(contextvars.ContextVar.reset, (self.var, self), None)


@substitute(contextvars.ContextVar.get)
def _get(session: Session, variable: Any, default: Any = _UNSET, /) -> Any:
    world = session.world
    pending = world.overlay.get((id(variable), ""), ABSENT)
    if pending is not ABSENT:
        return pending
    if variable.get(_UNSET) is _UNSET:  # not set, and with a default of its own `get()` gives that
        world.guard(const(variable), "CHECK", (lambda now: now.get(_UNSET) is _UNSET, "is not set"), "unset")
        if default is not _UNSET:
            return default
    else:
        world.guard(const(variable), "CHECK", (lambda now: now.get(_UNSET) is not _UNSET, "is set"), "set")
    return let_in(world, value_of(variable), const(variable).to("ask", value_of))


@substitute(contextvars.ContextVar.set)
def _set(session: Session, variable: Any, value: Any, /) -> Any:
    world = session.world
    token = Token(variable, world.overlay.get((id(variable), ""), ABSENT))
    world.overlay[(id(variable), "")] = value
    world.write("setvar", variable, None, value)
    return token


@substitute(contextvars.ContextVar.reset)
def _reset(session: Session, variable: Any, token: Any, /) -> None:
    if type(token) is not Token or token.var is not variable:
        raise Interrupt("effect-object", "a context variable reset with an external token")
    world = session.world
    if token.old_value is ABSENT:  # as it was at the start: nothing is left to be written
        world.overlay.pop((id(variable), ""), None)
        world.effects[:] = [change for change in world.effects if change.owner is not variable]
    else:
        world.overlay[(id(variable), "")] = token.old_value
        world.write("setvar", variable, None, token.old_value)

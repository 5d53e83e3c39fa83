"""Context variables and the decimal context: state of the thread, read under guard and written as an effect."""

from __future__ import annotations

import contextvars
import decimal
from typing import TYPE_CHECKING, Any

from ..._core import is_a
from ...boundary.becomes.reloaded_types import derives
from ...boundary.facts.decimal_state import enter_decimal, read_default_context
from ...boundary.gateway import let_in
from ...boundary.world import ABSENT
from ...calls.call_tables import substitute
from ...graph.symbols.numbers import NUMBERS
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt
from .lazy_containers import natively

if TYPE_CHECKING:
    from ...rehearsal.session import Session

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


@substitute(
    decimal.Decimal,
    vars(decimal.Decimal)["__new__"],
    vars(decimal.Decimal)["from_float"],
    decimal.Context,
    decimal.getcontext,
    decimal.setcontext,
    decimal.localcontext,
)
def _decimal(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    enter_decimal(session.world)
    if callable_ is decimal.Context:
        read_default_context(session.world)
    plain = [arg.value() if type(arg) in NUMBERS else arg for arg in args]
    return natively(
        callable_, tuple(plain), {name: arg.value() if type(arg) in NUMBERS else arg for name, arg in kwargs.items()}
    )


def makes_decimals(callable_: Any) -> Any:
    """A class of the program's that derives from decimals: made as these are."""
    plain = is_a(callable_, type) and type(callable_) is type and derives(callable_, decimal.Decimal)
    return _subclass if plain else None


def _subclass(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session.note_class(callable_)
    return _decimal(session, callable_, args, kwargs)

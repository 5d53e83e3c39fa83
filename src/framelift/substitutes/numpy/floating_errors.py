"""Floating-point errors of numpy: a graph knows nothing of them, so none may raise or call the program.

Numpy calculates on, and warns; or does what `numpy.errstate` says, which may be to raise.  Filters of warnings may turn
the warning into an exception.  Captures of numpy's functions hold where numpy warns at most.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...boundary.becomes.arrays import numpy
from ...guards.checks import check
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...boundary.world import World

_geterr: Callable[[], dict[str, str]] | None = getattr(numpy, "geterr", None)
_MILD = frozenset(("ignore", "warn"))


@check
def _warns_at_most(_numpy: Any) -> bool:
    assert _geterr is not None
    kinds = set(_geterr().values())
    if not kinds <= _MILD:
        return False
    return "warn" not in kinds or not any(
        action == "error" and issubclass(RuntimeWarning, category) for action, _, category, *_ in warnings.filters
    )


def note_errors(world: World, name: str) -> None:
    """One of numpy's functions is captured: a floating-point error in it is at most a warning."""
    if not _warns_at_most(numpy):
        raise Interrupt("unknown-callable", f"numpy.{name} (a floating-point error in it may raise or call something)")
    world.guard(const(numpy), "CHECK", (_warns_at_most, "warns of floating-point errors at most"), "errors")


def without_errors(world: World, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of numpy's functions on plain values; where it would warn, it does so at each call."""
    note_errors(world, name)
    try:
        with numpy.errstate(divide="raise", over="raise", invalid="raise"):
            return function(*args, **kwargs)
    except FloatingPointError as error:
        raise Interrupt("unknown-callable", f"numpy.{name} ({error})") from None

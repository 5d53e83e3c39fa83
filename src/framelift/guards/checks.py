"""Checks of guards that have a written form: functions of a table, and what they are given before the value.

The check of a CHECK guard is any callable.  One that is a function of `CHECKS`, or `functools.partial` of one with
plain values, functions and classes, can be kept on disk with its capture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .equality import PARTS, indistinguishable

#: module and name -> function
CHECKS: dict[str, Callable[..., bool]] = {}
_NAMES: dict[Any, str] = {}
_Check = TypeVar("_Check", bound=Callable[..., bool])


def check(function: _Check) -> _Check:
    """A decorator: this function is a check.  Its last argument is the value at the guard's origin."""
    name = f"{function.__module__}.{function.__qualname__}"
    CHECKS[name], _NAMES[function] = function, name
    return function


def as_check(function: Callable[..., bool], *given: Any) -> Callable[[Any], bool]:
    """Return a predicate that calls a check with these arguments before the value."""
    if not given:
        return function
    return functools.partial(function, *given)


def form_of(asked: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The name of a check, and what it is given; None where it has no written form."""
    bound = type(asked) is functools.partial and not asked.keywords
    function, given = (asked.func, asked.args) if bound else (asked, ())
    try:
        name = _NAMES.get(function)
    except TypeError:  # not hashable
        return None
    return None if name is None else (name, given)


@check
def is_made_of(cls: type, parts: Any, now: Any) -> bool:
    """Return whether a value is of this type, and a program can tell just this of it."""
    return type(now) is cls and indistinguishable(PARTS[cls](now), parts)


@check
def gives(value: Any, ask: Callable[[], Any]) -> bool:
    """A function without arguments gives this."""
    return indistinguishable(ask(), value)


check(bool)

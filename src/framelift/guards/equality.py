"""When two immutable values are one to every program: `indistinguishable` is what all guards by equality mean.

Python's own `==` is too coarse: `1 == True == 1.0`, `0.0 == -0.0`, equal frozen sets may iterate in different orders.
`PARTS` has a row for each type whose equal values a program can tell apart; of all others, equal values of one type are
the same.  csrc/guard_leaf.cpp implements this for the types of leaves; tests run both.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import re
import struct
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import _core


def _row(value: Any) -> tuple[Any, ...]:
    return tuple(tuple.__iter__(value))


def _set(value: Any) -> tuple[Any, ...]:
    """The elements as they lie: that decides how the set iterates, and how those made of it do."""
    return _core.layout_of_set(value), *type(value).__iter__(value)


def _bounds(value: Any) -> tuple[Any, ...]:
    """Equal ranges may be of other bounds."""
    return value.start, value.stop, value.step


def _moment(value: Any) -> Any:
    return repr(value) if type(value.tzinfo) in (type(None), datetime.timezone) else None


def _match(value: Any) -> Any:
    return (value.re, value.string, value.pos, value.endpos, value.regs) if type(value.string) in (str, bytes) else None


def _given(value: Any) -> Any:
    """Return the arguments that a getter of `operator` was made of."""
    made, arguments = value.__reduce__()
    return arguments if made is type(value) else None


#: type -> what a program can tell of a value of it, which is compared in turn; None where not enough is known of it
PARTS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    tuple: _row,
    torch.Size: _row,
    frozenset: _set,
    set: _set,
    slice: _bounds,
    range: _bounds,
    types.CodeType: id,  # CPython's own comparison leaves out the names of file and function
    decimal.Decimal: lambda value: _row(value.as_tuple()),
    operator.attrgetter: _given,
    operator.itemgetter: _given,
    operator.methodcaller: _given,
    datetime.date: repr,
    datetime.timedelta: repr,
    datetime.timezone: repr,
    datetime.datetime: _moment,
    datetime.time: _moment,
    re.Match: _match,
}


def indistinguishable(a: Any, b: Any) -> bool:
    """Return whether no program can tell two immutable values apart, but by their identity."""
    cls = type(a)
    if a is b or cls is not type(b):
        return a is b
    parts = PARTS.get(cls)
    if parts is None:
        return bool(a == b)
    left, right = parts(a), parts(b)
    if type(left) is tuple and type(right) is tuple:
        return len(left) == len(right) and all(map(indistinguishable, left, right))
    return left is not None and indistinguishable(left, right)

"""Relations that a capture relies on and that are checked by calling them: entries name them `call_...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...guards.equality import indistinguishable

_FLOAT = torch.finfo(torch.float32)
#: the text of `is_ordinary`
ORDINARY = f"{_FLOAT.tiny!r} <= abs({{0}}) <= {_FLOAT.max!r} or {{0}} == 0.0"


def is_ordinary(value: float) -> bool:
    """Return whether a float is one of many to torch: finite, and a number of float32.  All others are captured one by
    one.
    """
    return value == 0.0 or _FLOAT.tiny <= abs(value) <= _FLOAT.max


def same_float(value: float, constant: float) -> bool:
    """Return whether a float is this one, zeros with their sign."""
    return indistinguishable(value, constant)


def same_text(value: Any, text: str) -> bool:
    """Return whether a scalar of numpy's prints as this one does."""
    return repr(value) == text


def opposite(func: Callable[..., Any]) -> Callable[..., bool]:
    """Return whether a comparison does not hold."""

    def negated(*args: Any) -> bool:
        return not func(*args)

    negated.__name__ = f"not_{func.__name__}"
    return negated


def raising(func: Callable[..., Any], error: Exception) -> Callable[..., bool]:
    """Return whether a calculation raises the same."""
    kind, text = type(error), str(error)

    def raises(*args: Any) -> bool:
        try:
            func(*args)
        except Exception as now:  # noqa: BLE001  whatever it is, it is compared
            return type(now) is kind and str(now) == text
        return False

    raises.__name__ = f"{func.__name__}_raises"
    return raises

"""What a program says of sizes beyond "dynamic": ranges, equal sizes, conditions with captures of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint, expect_true
from torch.utils._sympy.value_ranges import ValueRanges

from ..._core import is_a
from .meanings import Marks

if TYPE_CHECKING:
    from .environment import Symbols

__all__ = ["check_declared", "constraint", "relies_on_one", "span"]

_off = torch._C.DisableTorchFunction


def constraint(low: int | None, high: int | None) -> StrictMinMaxConstraint | None:
    """What the program declared of a size, as torch's shape environment wants it."""
    if low is None and high is None:
        return None
    bounds = ValueRanges(low if low is not None else 0, high if high is not None else sys.maxsize - 1)
    return StrictMinMaxConstraint(vr=bounds, warn_only=False)


def span(low: int | None, high: int | None) -> str:
    """A range in words."""
    return " ".join([f"from {low}"] * (low is not None) + [f"up to {high}"] * (high is not None))


def check_declared(symbols: Symbols, raw: torch.SymInt, length: int, marks: Marks, dim: int, words: str) -> None:
    """What the program said of an unbacked size is checked at every call."""
    (low, high), name = marks.bounds.get(dim, (None, None)), marks.shared.get(dim)
    if low is not None and length < low or high is not None and length > high:
        symbols.refused.append(f"{words} is {length}, but was marked unbacked {span(low, high)}")
    first, size = symbols.shared.setdefault(name, (raw, length)) if name is not None else (raw, length)
    if size != length:
        symbols.refused.append(f"{words} is {length}, but others of shape_id={name!r} are {size}")
    with _off():
        if low is not None:
            expect_true(raw >= low)
        if high is not None:
            expect_true(raw <= high)
        if first is not raw:
            symbols.equal.append((str(raw.node._expr), str(first.node._expr)))
            expect_true(raw == first)


def relies_on_one(raw: torch.SymInt, length: int, conditions: tuple[Callable[[Any], Any], ...]) -> bool:
    """Whether one of the conditions that are to have captures of their own holds.  The capture relies on it, or on none
    holding.
    """
    for condition in conditions:
        holds = bool(condition(length))
        with _off():
            answer = condition(raw)
            if is_a(answer, torch.SymBool):
                expect_true(answer if holds else torch.sym_not(answer))
        if holds:
            return True
    return False

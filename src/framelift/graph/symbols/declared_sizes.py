"""Declarations of sizes beyond "dynamic": ranges, equal sizes, conditions with captures of their own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint, expect_true

from ..._core import is_a
from ...torch_ports.modes import DisableTorchFunction
from ...torch_ports.symbols import ValueRanges
from .meanings import Marks

if TYPE_CHECKING:
    from .environment import Symbols

_off = DisableTorchFunction


def constraint(low: int | None, high: int | None) -> StrictMinMaxConstraint | None:
    """Return the declared range of a size as torch's shape environment takes it."""
    if low is None and high is None:
        return None
    bounds = ValueRanges(low if low is not None else 0, high if high is not None else sys.maxsize - 1)
    return StrictMinMaxConstraint(vr=bounds, warn_only=False)


def span(low: int | None, high: int | None) -> str:
    """A range in words."""
    return " ".join([f"from {low}"] * (low is not None) + [f"up to {high}"] * (high is not None))


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """`expression`, over names of shared sizes, holds; or it is the size called `words`."""

    expression: Any
    raw: torch.SymInt | None = None
    length: int = 0
    words: str = ""


class Declarations:
    """What the program declared of the sizes of one rehearsal."""

    def __init__(self) -> None:
        # names declared dynamic -> words for the place, the least and greatest size
        self.promised: dict[str, tuple[str, int | None, int | None]] = {}
        self.shared: dict[str, tuple[torch.SymInt, int]] = {}  # unbacked sizes by the names that the program gave them
        self.equal: list[tuple[str, str]] = []  # names of sizes that were declared to be equal
        self.pending: list[Claim] = []  # declared relations with names that no size has yet
        self.assumed: list[Any] = []  # assumptions that were met
        self.claimed: list[Any] = []  # those that are checked at every call, in names of symbols (sympy)
        self.refused: list[str] = []  # inputs that are not what the user declared


def check_declared(symbols: Symbols, raw: torch.SymInt, length: int, marks: Marks, dim: int, words: str) -> None:
    """Check at every call what the program declared of an unbacked size, or of an int."""
    (low, high), name = marks.bounds.get(dim, (None, None)), marks.shared.get(dim)
    if low is not None and length < low or high is not None and length > high:
        symbols.declared.refused.append(f"{words} is {length}, but was marked unbacked {span(low, high)}")
        return
    first, size = symbols.declared.shared.setdefault(name, (raw, length)) if name is not None else (raw, length)
    if size != length:
        symbols.declared.refused.append(f"{words} is {length}, but others of shape_id={plain_names(name)!r} are {size}")
        return
    if dim in marks.derived:
        symbols.declared.pending.append(Claim(marks.derived[dim], raw, length, words))
    known = {id(claim.expression) for claim in symbols.declared.pending} | set(map(id, symbols.declared.assumed))
    symbols.declared.pending += [Claim(one) for one in marks.assumed if id(one) not in known]
    symbols.declared.assumed += marks.assumed
    with _off():
        if low is not None:
            expect_true(raw >= low)
        if high is not None:
            expect_true(raw <= high)
        if first is not raw:
            symbols.declared.equal.append((str(raw.node._expr), str(first.node._expr)))
            expect_true(raw == first)
        symbols.declared.pending = [claim for claim in symbols.declared.pending if not _settle(symbols, claim)]


def _settle(symbols: Symbols, claim: Claim) -> bool:
    """A claim, once all its names are known: for this call, and as a check for every call."""
    names = {str(symbol): symbol for symbol in claim.expression.free_symbols}
    if not names.keys() <= symbols.declared.shared.keys():
        return False
    known = {symbol: symbols.declared.shared[name] for name, symbol in names.items()}
    now = claim.expression.xreplace({symbol: sympy.Integer(length) for symbol, (_, length) in known.items()})
    text = plain_names(claim.expression)
    if claim.raw is not None and now != claim.length:
        symbols.declared.refused.append(f"{claim.words} is {claim.length}, but was declared as {text}, which is {now}")
        return True
    if claim.raw is None and now != sympy.true:
        symbols.declared.refused.append(f"{text} was declared to hold, and does not")
        return True
    relation = claim.expression.xreplace({symbol: raw.node.expr for symbol, (raw, _) in known.items()})
    if claim.raw is not None:
        relation = sympy.Eq(claim.raw.node.expr, relation)
    symbols.declared.claimed.append(relation)
    expect_true(torch.SymBool(SymNode(relation, symbols.env, bool, True)))
    return True


def unsettled(symbols: Symbols) -> list[str]:
    """Relations with names that are no size or int of their own."""
    return [
        f"dynamic_shapes mentions {plain_names(name)}, which is not the size or int of any argument that was read"
        for claim in symbols.declared.pending
        for name in sorted(map(str, claim.expression.free_symbols))
        if name not in symbols.declared.shared
    ]


def plain_names(expression: Any) -> str:
    """As the program wrote it: torch numbers the names.

    >>> plain_names("2*batch#0 + 1")
    '2*batch + 1'
    """
    return re.sub(r"#\d+", "", str(expression))


def relies_on_one(raw: torch.SymInt, length: int, conditions: tuple[Callable[[Any], Any], ...]) -> bool:
    """Return whether one of the conditions that are to have captures of their own holds.  The capture relies on it, or
    on none holding.
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

"""Decimal contexts from outside: private copies, whose changes are effects.  Classes that derive from decimals."""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

import pytest
import torch

import framelift
from support import check, compiled

OWN = decimal.Context(prec=5)


class Money(Decimal):
    currency = "none"

    def doubled(self) -> Decimal:
        return self * 2


class Counted(Decimal):
    def __new__(cls, value: Any, by: int) -> Counted:
        self = super().__new__(cls, value)
        self.by = by
        return self

    def __init__(self, value: Any, by: int) -> None:
        self.after = by + 1


def in_a_block(x: torch.Tensor) -> Any:
    with decimal.localcontext(OWN) as inside:
        inside.prec += 1
        found = Decimal(1) / 3
    return x + 1, str(found), str(Decimal(1) / 3), OWN.prec


def by_methods(x: torch.Tensor) -> Any:
    return (
        x + 1,
        str(OWN.divide(Decimal(1), Decimal(3))),
        str(OWN.create_decimal("1.23456789")),
        OWN.flags[decimal.Inexact],
    )


def changed(x: torch.Tensor) -> Any:
    OWN.prec = 7
    OWN.traps[decimal.Inexact] = False
    return x + 1, OWN.prec, str(OWN.sqrt(Decimal(2)))


def read(x: torch.Tensor) -> Any:
    return x + 1, OWN.prec, OWN.rounding, OWN.Emax, OWN.traps[decimal.DivisionByZero], repr(OWN)


def the_threads_own(x: torch.Tensor, context: Any) -> Any:
    context.prec = 4
    return x + 1, context is decimal.getcontext(), str(Decimal(1) / 7)


def copied(x: torch.Tensor) -> Any:
    other = OWN.copy()
    other.prec = 3
    return x + 1, other.prec, OWN.prec, other is OWN, str(other.divide(Decimal(2), Decimal(3)))


def derived(x: torch.Tensor) -> Any:
    one, two = Money("1.5"), Counted("2.5", by=3)
    return (
        x + 1,
        [str(one), str(two), str(one.doubled()), str(one + two), one.currency, two.by, two.after],
        [type(one) is Money, isinstance(two, Decimal), one < two, hash(one) == hash(Decimal("1.5"))],
    )


def derived_inside(x: torch.Tensor) -> Any:
    class Own(Decimal):
        pass

    try:
        Own("no number")
    except decimal.InvalidOperation:
        return x + 1, str(Own(3)), type(Own(3)) is Own, str(Own.from_float(0.5))
    return x


PROGRAMS = (in_a_block, by_methods, changed, read, copied, derived, derived_inside)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    before = decimal.getcontext().copy()
    OWN.prec, OWN.rounding = 5, decimal.ROUND_HALF_EVEN
    OWN.clear_flags()
    OWN.traps[decimal.Inexact] = False
    yield
    decimal.setcontext(before)


def _state(context: decimal.Context) -> Any:
    return repr(context)


@pytest.mark.parametrize("program", PROGRAMS)
def test_contexts(program: Any) -> None:
    found = []
    for call in (program, compiled(program, fullgraph=True)):
        OWN.prec = 5
        OWN.clear_flags()
        seen = []
        for number in range(4):
            if number == 2:
                OWN.prec = 9
            seen.append((str(call(torch.ones(2))), _state(OWN), _state(decimal.getcontext())))
        found.append(seen)
        decimal.getcontext().clear_flags()
    assert [one[:2] for one in found[0]] == [one[:2] for one in found[1]]


def test_the_context_of_the_thread() -> None:
    found = []
    for call in (the_threads_own, compiled(the_threads_own)):
        with decimal.localcontext() as context:
            found.append((str(call(torch.ones(2), context)), context.prec, str(call(torch.ones(2), decimal.Context()))))
    assert found[0] == found[1]


def test_a_context_is_guarded() -> None:
    c = framelift.compile(read, backend="eager", fullgraph=True)
    for rounding in (decimal.ROUND_UP, decimal.ROUND_DOWN, decimal.ROUND_UP):
        OWN.rounding = rounding
        assert c(torch.ones(2))[1:] == read(torch.ones(2))[1:]
    assert len(c.entries) == 2


def test_values_of_derived_classes_leave() -> None:
    check(lambda x: (x + 1, Money("1.5")), torch.ones(2), graphs=None, breaks=None)


def made(x: torch.Tensor) -> Any:
    return x + 1, decimal.Context().prec, str(decimal.Context().divide(Decimal(1), Decimal(3)))


def made_after_a_change(x: torch.Tensor) -> Any:
    decimal.DefaultContext.prec = 9
    return x + 1, decimal.Context().prec


@pytest.mark.parametrize("program", [made, made_after_a_change])
def test_the_settings_of_new_contexts(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    c = compiled(program)
    for precision in (28, 7, 7, 28):
        monkeypatch.setattr(decimal.DefaultContext, "prec", precision)
        assert str(c(torch.ones(2))) == str(program(torch.ones(2)))


def test_which_context_is_that_of_the_thread() -> None:
    mine, other = decimal.Context(prec=6), decimal.Context(prec=6)

    def f(x: torch.Tensor) -> Any:
        mine.prec += 1
        return x + 1, decimal.getcontext() is mine, decimal.getcontext().prec

    found = []
    for call in (f, compiled(f)):
        seen = []
        for current in (mine, other, mine):
            mine.prec = other.prec = 6
            with decimal.localcontext():
                decimal.setcontext(current)
                seen.append((str(call(torch.ones(2))), mine.prec, other.prec))
        found.append(seen)
    assert found[0] == found[1]

"""Operators of enumerations: C code finds them in the class, and a program may replace them."""

from __future__ import annotations

import datetime
import decimal
import enum
import operator

import pytest
import torch

import framelift
from support import check, or_type_error

X = torch.ones(2)


OPERATORS = {
    "__add__": lambda a, b: 7,
    "__lt__": lambda a, b: 9,
    "__eq__": lambda a, b: 5,
    "__hash__": lambda a: 5,
    "__neg__": lambda a: 6,
    "__bool__": lambda a: False,
    "__str__": lambda a: "text",
    "__len__": lambda a: 3,
    "__iter__": lambda a: iter((1, 2)),
}


@pytest.mark.parametrize("base", [enum.Enum, enum.IntEnum, enum.Flag])
@pytest.mark.parametrize("reached", ["argument", "closure"])
def test_operators_that_are_replaced_are_seen(base, reached) -> None:
    kind = base("Kind", {"A": 1, "B": 2})

    def program(x, one=None):
        member = kind.A if one is None else one
        return x + 1, or_type_error(
            lambda: member + 1,
            lambda: member < kind.B,
            lambda: member == 1,
            lambda: hash(member) == 5,
            lambda: -member,
            lambda: bool(member),
            lambda: str(member),
            lambda: len(member),
            lambda: list(member),
        )

    compiled = framelift.compile(program, backend="eager", recompile_limit=20)
    args = (X, kind.A) if reached == "argument" else (X,)
    for name, replacement in OPERATORS.items():
        assert str(compiled(*args)) == str(program(*args))
        captures = len(compiled.entries)
        assert str(compiled(*args)) == str(program(*args)) and len(compiled.entries) == captures
        setattr(kind, name, replacement)
        assert str(compiled(*args)) == str(program(*args)), name


def test_operators_that_no_probe_sees_are_not_captured() -> None:
    table = [1]

    class Kind(enum.Enum):
        A = 1

    Kind.__index__ = operator.methodcaller("give")
    Kind.give = lambda self: table[0]

    def program(x):
        return x + operator.index(Kind.A)

    compiled = framelift.compile(program, backend="eager")
    for value in (1, 2, 3):
        table[0] = value
        try:
            expected = program(X)
        except TypeError as error:
            with pytest.raises(TypeError, match=str(error)[:20]):
                compiled(X)
        else:
            assert torch.equal(compiled(X), expected)


class Day(datetime.date, enum.Enum):
    FIRST = 2020, 1, 2
    SECOND = 2021, 3, 4


def test_members_that_are_dates() -> None:
    """Attributes of such a member are found as those of any object."""

    def f(x):
        return x + len(Day), [one.name for one in Day], Day.FIRST._name_, Day["SECOND"] is Day.SECOND

    check(f, torch.ones(2))


def test_parts_of_members_that_are_dates() -> None:
    def f(x):
        return x + Day.FIRST.year, Day.SECOND.value, Day.FIRST < Day.SECOND

    check(f, torch.ones(2), graphs=None, breaks=None)

"""External objects of C types that hold a value or a place.

Dates, matches, slices, instances over built-in values; dispatch by class.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import importlib
import io
import itertools
import re
import sys
import types
from typing import Any

import pytest
import torch

import framelift
from fresh_worlds import in_fresh_worlds
from support import check


def _nothing() -> None:
    pass


def moments() -> Any:
    utc = datetime.timezone.utc
    at = types.SimpleNamespace(
        day=datetime.date(2020, 1, 2), span=datetime.timedelta(3), time=datetime.datetime(2020, 2, 3, 4, tzinfo=utc)
    )

    def program(x: Any) -> Any:
        later = at.day + at.span
        return x + later.day + at.time.hour + at.span.days + (at.day < later) + len(at.day.isoformat())

    return program, [
        lambda: setattr(at, "day", datetime.date(2020, 1, 9)),
        lambda: setattr(at, "time", at.time.replace(hour=7)),
    ]


def matches() -> Any:
    at = types.SimpleNamespace(found=re.match("a(b)", "abc"))
    return lambda x: x + len(at.found.string) + at.found.end(1), [
        lambda: setattr(at, "found", re.match("(a)b", "abcd"))
    ]


class Number(int):
    def twice(self) -> int:
        return self * 2 + self.more  # type: ignore[attr-defined]


class Text(str):
    pass


class Fraction(float):
    pass


def over_values() -> Any:
    def number(value: int, more: int) -> Number:
        made = Number(value)
        made.more = more  # type: ignore[attr-defined]
        return made

    at = types.SimpleNamespace(n=number(3, 1), s=Text("abc"), f=Fraction(2.5))

    def program(x: Any) -> Any:
        return (
            x
            + (at.n + 1)
            + at.n.twice()
            + len(at.s)
            + {"abc": 5}.get(at.s, 0)
            + at.f * 2
            + [1, 2, 3, 4, 5][at.n]
            + (at.s + "d").count("d")
        )

    return program, [
        lambda: setattr(at, "n", number(4, 1)),
        lambda: setattr(at.n, "more", 8),
        lambda: setattr(at, "s", Text("abcd")),
        lambda: setattr(at, "f", Fraction(-0.0)),
    ]


def slices() -> Any:
    at = types.SimpleNamespace(of=slice(types.SimpleNamespace(n=1), None))
    return lambda x: x + at.of.start.n, [
        lambda: setattr(at.of.start, "n", 5),
        lambda: setattr(at, "of", slice(types.SimpleNamespace(n=2), 1)),
    ]


def dispatch() -> Any:
    @functools.singledispatch
    def kind(of: Any) -> int:
        return 1

    @kind.register
    def _(of: int) -> int:
        return 2

    class Owner:
        @functools.singledispatchmethod
        def kind(self, of: Any) -> int:
            return 3

        @kind.register
        def _(self, of: str) -> int:
            return 4

    owner = Owner()
    return lambda x: x + kind(3) + kind("a") * 10 + kind(True) * 100 + owner.kind(1) * 1000 + owner.kind("a") * 10000, [
        lambda: kind.register(str, lambda of: 7),
        lambda: kind.register(bool, lambda of: 5),
    ]


@pytest.mark.parametrize("make", [moments, matches, over_values, slices, dispatch], ids=lambda f: f.__name__)
def test_values_from_outside(make: Any) -> None:
    # CPython 3.13 keeps the methods of singledispatchmethod in a WeakKeyDictionary: a graph break
    in_fresh_worlds(make, whole=make is not dispatch or sys.version_info[:2] != (3, 13))


def test_many_values_with_a_symbolic_one_among_them() -> None:
    """Long containers of values are kept as constants; what belongs to one call must not be among them."""
    import framelift

    numbers, counts = list(range(40)), {"a": 2}

    def program(x: Any) -> Any:
        counts["a"] += 1
        numbers[3:] = [*numbers[3:], counts["a"]]
        return (
            x + counts["a"],
            [*range(40), counts["a"]],
            {key: counts["a"] for key in range(40)},
            tuple([*range(40), counts["a"]]),
        )

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for turn in range(3, 7):
        _, listed, keyed, fixed = captured(torch.ones(1))
        found = [numbers[-1], listed[-1], keyed[0], fixed[-1]]
        assert found == [turn] * 4 and {type(n) for n in [*numbers, *found]} == {int}


def test_many_values_with_an_address_among_them() -> None:
    import framelift

    def program(x: Any) -> Any:
        return x + 1, [*range(40), id([])]

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(1))


def test_what_the_interpreter_says_of_itself() -> None:
    def f(x):
        return x + sys.float_info.max_exp + sys.flags.optimize + sys.hash_info.width + sys.int_info[
            0
        ] + sys.version_info.major, sys.float_info

    assert check(f, torch.ones(1))[1] is sys.float_info


def test_modules_of_any_class_are_asked_for_an_attribute() -> None:
    """As unittest asks all there are; some are of classes that make up attributes, ours among them."""
    modules = [sys, torch.backends.cudnn, torch.backends.mkldnn, framelift.config]

    def f(x):
        return x + len([module for module in modules if getattr(module, "__nobody_has_this__", None)])

    assert framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(1)).item() == 1


def test_calling_none_raises_as_in_plain_python() -> None:
    def f(x):
        try:
            [1].__hash__()
        except TypeError as error:
            return x + 1, str(error)

    check(f, torch.ones(1))


def test_a_c_module_that_was_loaded_again() -> None:
    """Its functions are other objects over the same C code, which no table knows: they run eagerly."""
    known = sys.modules.pop("_bisect")
    try:
        again = importlib.import_module("_bisect")
    finally:
        sys.modules["_bisect"] = known
    assert again.bisect_left is not known.bisect_left

    def f(x):
        return x + again.bisect_left([1, 2, 3], 4, key=lambda v: v * 2) + again.bisect_right([1, 2, 2], 2)

    assert framelift.compile(f, backend="eager")(torch.ones(1)).item() == f(torch.ones(1)).item() == 5


def test_errors_name_the_class_of_an_object_that_is_not_known() -> None:
    stream = io.BytesIO(b"a")

    def program(x):
        found = []
        for ask in (lambda: b"".join([b"q", stream]), lambda: "a".join([stream]), lambda: "abc".split(stream)):
            try:
                found.append(ask())
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[1] == program(torch.ones(2))[1]

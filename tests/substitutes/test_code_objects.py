"""Classes and source text of captured code: made and run in eager mode, and what comes after is captured."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import sys
import types
import typing
from typing import Any

import pytest
import torch

import framelift
from support import check, counts

FACTOR = 3
X = torch.ones(2)


class Meta(type):
    def __new__(cls, name: str, bases: Any, space: dict[str, Any]) -> Any:
        return super().__new__(cls, name, bases, {**space, "two": 2})


class Registered:
    known: typing.ClassVar[list[str]] = []

    def __init_subclass__(cls, tag: str = "") -> None:
        Registered.known.append(tag)


def statement(x: Any) -> Any:
    class Counter:
        step = FACTOR
        __slots__ = ("k",)

        def __init__(self, k: Any) -> None:
            self.k = k

        def next(self) -> Any:
            return __class__.__name__, self.k + self.step

    return Counter(x + 1).next(), isinstance(Counter(x), Counter)


def derived(x: Any) -> Any:
    before = len(Registered.known)

    class Child(Registered, tag="t"):
        value = x

        def both(self) -> Any:
            return super().__init_subclass__, self.value

    return Child().both()[1] + len(Registered.known) - before


def abstract(x: Any) -> Any:
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self) -> Any: ...

    try:
        Base()
    except TypeError:
        return x + 1
    return x


def called(x: Any) -> Any:
    return type("Made", (), {"two": x * 2})().two, Meta("Made", (), {})().two, types.new_class("New").__name__


def of_records(x: Any) -> Any:
    Pair = collections.namedtuple("Pair", "a b", defaults=[7])

    @dataclasses.dataclass
    class Point:
        a: Any
        b: int = FACTOR

    return tuple(Pair(x + 1)), dataclasses.astuple(Point(x))[1]


def of_members(x: Any) -> Any:
    class Colour(enum.Enum):
        RED = FACTOR

    return x + Colour.RED.value, Colour(FACTOR).name


def in_namespaces(x: Any) -> Any:
    space: dict[str, Any] = {"scale": x}
    exec("def f(v):\n    global n\n    n = len('abc')\n    return v * scale\n", space)
    names: dict[str, Any] = {}
    exec("def f(v):\n    return v * FACTOR\n", sys.modules[__name__].__dict__, names)
    return space["f"](x), space["n"], names["f"](x), eval("x * n + max(n, 1)", {"x": x, "n": FACTOR})


def here(x: Any) -> Any:
    unused, y = 5, x + 1
    return eval("y + unused + FACTOR"), [eval("y * k", {"k": k, "y": y}) for k in (1, 2)]


def compiled_first(x: Any) -> Any:
    return eval(compile("x + FACTOR", "<text>", "eval"))


PROGRAMS = [statement, derived, abstract, called, of_records, of_members, in_namespaces, here, compiled_first]


@pytest.mark.parametrize("program", PROGRAMS)
def test_made_in_eager_mode(program: Any) -> None:
    check(program, X, graphs=None, breaks=None)
    assert counts().total_breaks


@pytest.mark.parametrize("call", [lambda: eval("a +"), lambda: exec(1), lambda: compile("a +", "<text>", "eval")])
def test_errors_are_those_of_eager(call: Any) -> None:
    def program(x: Any) -> Any:
        try:
            call()
        except (SyntaxError, TypeError) as error:
            return x + 1, type(error), str(error)

    check(program, X, graphs=None, breaks=None)


CODE = compile("y * k", "<code>", "eval")


@pytest.mark.parametrize(
    "program",
    [
        lambda x: [eval(CODE, {"k": k, "y": x + 1}) for k in (1, 2)],
        lambda x: {k: eval(CODE, {"k": k, "y": x + 1}) for k in (1, 2)},
        lambda x: ([locals().get("k") and eval(CODE, {"k": k, "y": x + 1}) for k in (1, 2)], eval("x + FACTOR")),
    ],
)
def test_a_comprehension_that_looks_at_variables(program: Any) -> None:
    """What it goes over lies on its stack, and is no variable that the resumed part has."""
    check(program, X, graphs=None, breaks=None)


def test_a_dictionary_that_holds_the_globals_of_a_function() -> None:
    space: dict[str, Any] = {}
    exec("def count():\n    global n\n    n = globals().get('n', 0) + 1\n    return n\n", space)

    def reads_what_it_writes(x: Any) -> Any:
        first = space["count"]()
        return x + first, space["n"], space["count"]()

    def writes_what_it_reads(x: Any) -> Any:
        space["n"] = 10
        return x + space["count"](), space["n"]

    def asks_first(x: Any, call: Any, table: Any) -> Any:
        first = call()
        table["n"] = 20
        return x + call() + first, table["n"]

    for program, more in (
        (reads_what_it_writes, ()),
        (writes_what_it_reads, ()),
        (asks_first, (space["count"], space)),
    ):
        compiled = framelift.compile(program, backend="eager")
        for _ in range(3):
            space["n"] = 1
            expected = str(program(X, *more))
            space["n"] = 1
            assert str(compiled(X, *more)) == expected

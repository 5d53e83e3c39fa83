"""Facts of external objects that C code answers past their attributes.

Instance dictionaries of C types, abstract classes, JSON.
"""

from __future__ import annotations

import array
import collections
import collections.abc
import ctypes
import json
import threading
import time
import types
from typing import Any

import pytest
import torch

import framelift

X = torch.ones(2)


def same(function: Any, *args: Any) -> Any:
    """Compiled and eager once each; what both gave."""
    expected = eager(function, *args)
    found = eager(framelift.compile(function, backend="eager"), *args)
    assert repr(found) == repr(expected)
    return found


def eager(function: Any, *args: Any) -> Any:
    try:
        return function(X, *args)[1]
    except (AttributeError, TypeError, ValueError) as error:
        return type(error), str(error)


class Ordered(collections.OrderedDict[str, int]):
    pass


class Queue(collections.deque[int]):
    pass


@pytest.mark.parametrize("make", [lambda: collections.OrderedDict(p=1), lambda: Ordered(p=1), lambda: Queue([1])])
def test_an_attribute_given_later_to_a_container(make: Any) -> None:
    box = make()

    def f(x: torch.Tensor) -> Any:
        return x + 1, (hasattr(box, "k"), dict(vars(box)))

    compiled = framelift.compile(f, backend="eager")
    assert compiled(X)[1] == (False, {})
    box.k = 5
    assert compiled(X)[1] == (True, {"k": 5})
    box.k = 6
    assert compiled(X)[1] == (True, {"k": 6})
    del box.k
    assert compiled(X)[1] == (False, {})


def test_a_function_attribute_through_a_bound_method() -> None:
    class Own:
        def method(self) -> int:
            return 1

    bound = Own().method

    def f(x: torch.Tensor) -> Any:
        return x + 1, (dict(vars(bound)), bound.__name__)

    compiled = framelift.compile(f, backend="eager")
    assert compiled(X)[1] == ({}, "method")
    Own.method.extra = 4  # type: ignore[attr-defined]
    assert compiled(X)[1] == ({"extra": 4}, "method")
    Own.method.__name__ = "renamed"
    assert compiled(X)[1] == ({"extra": 4}, "renamed")


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.__defaults__,
        vars,
        lambda m: type(m).__name__,
        lambda m: isinstance(m, types.BuiltinFunctionType),
        lambda m: isinstance(m, collections.abc.Hashable),
        lambda m: ("%s" % (m,))[:9],
        lambda m: f"{m}"[:9],
        lambda m: m(2),
        lambda m: m.__name__,
    ],
)
def test_a_bound_method_of_a_list_that_grows(ask: Any) -> None:
    data = [1, 2]
    count = data.count

    def f(x: torch.Tensor) -> Any:
        return x + 1, ask(count)

    compiled = framelift.compile(f, backend="eager")
    for _ in range(3):
        assert eager(compiled) == eager(f)
        data.append(2)


ABSTRACT = tuple(getattr(collections.abc, name) for name in collections.abc.__all__)


@pytest.mark.parametrize(
    "value",
    [
        memoryview(b"ab"),
        array.array("i", [1]),
        ctypes.c_int(3),
        iter({1: 2}),
        time.gmtime(0),
        torch.ones(2).untyped_storage(),
        object,
        {1, 2},
        {"p": 1},
    ],
)
def test_abstract_classes_of_what_is_only_a_placeholder(value: Any) -> None:
    def f(x: torch.Tensor, given: Any) -> Any:
        return x + 1, [isinstance(given, cls) for cls in ABSTRACT]

    same(f, value)


class Pair(tuple):  # type: ignore[type-arg]
    pass


class Counted(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        return [("own", 1)]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: collections.Counter(p=n),
        lambda n: collections.defaultdict(int, p=n),
        lambda n: Pair((n, 1)),
        lambda n: collections.OrderedDict(p=[n]),
        lambda n: Counted(p=n),
        lambda n: {"p": Pair((n, Pair((n,))))},
    ],
)
def test_json_of_numbers_that_change(make: Any) -> None:
    def f(x: torch.Tensor, given: Any) -> Any:
        return x + 1, json.dumps(given)

    compiled = framelift.compile(f, backend="eager")
    for number in (1, 2, 3, 4):
        assert compiled(X, make(number))[1] == f(X, make(number))[1]


def test_json_of_a_placeholder_inside_of_a_list() -> None:
    given = [time.gmtime(0)]
    assert same(lambda x: (x + 1, json.dumps(given))).startswith("[[1970")


def test_the_attributes_of_a_thread_local_object() -> None:
    local = threading.local()

    def f(x: torch.Tensor) -> Any:
        return x + 1, (dict(vars(local)), "k" in local.__dict__)

    compiled = framelift.compile(f, backend="eager")
    assert compiled(X)[1] == ({}, False)
    local.k = 5
    assert compiled(X)[1] == ({"k": 5}, True)


def test_an_iterator_that_comes_with_an_exception() -> None:
    view = memoryview(b"ab")
    view.release()

    def f(x: torch.Tensor) -> Any:
        y = x + 1
        for _ in view:
            y = y + 1
        return y, 1

    assert same(f)[0] is ValueError

"""`number in table` with a number that changes: which of the keys it is becomes a fact, not the number itself."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Counting:
    """What a training loop counts."""

    def __init__(self) -> None:
        self.now: Any = 0
        self.table: Any = None


class Odd(dict):  # type: ignore[type-arg]
    """A table with its own idea of what it has."""

    def __contains__(self, key: object) -> bool:
        return key in (2, 5)


class Wilful:
    """A key that equals what it likes."""

    def __hash__(self) -> int:
        return 3

    def __eq__(self, other: object) -> bool:
        return other == 3


def compared(make: Callable[[Counting], Callable[[torch.Tensor], Any]], captures: int | None, calls: int = 12) -> None:
    """The results of a function that counts its calls, plain and captured."""
    plain, captured = make(Counting()), make(Counting())
    framelift.reset()
    compiled = framelift.compile(captured, backend="eager")
    for n in range(calls):
        x = torch.full((2,), float(n))
        assert torch.equal(compiled(x), plain(x)), n
    if captures is not None:
        assert framelift.stats()["captures"] == captures and not framelift.stats()["breaks"]


TABLES = {
    "dict": {5: "a", 9: "b"},
    "Counter": collections.Counter([5, 9]),
    "OrderedDict": collections.OrderedDict({5: 1, 9: 2}),
    "set": {5, 9},
    "frozenset": frozenset((5, 9)),
    "mixed": {"a", None, (1, 2), 5, 9.0},
    "keys": {5: 1, 9: 2}.keys(),
    "list": [5, 9],
}


def looking(
    table: Any, step: Any = 1, has: Callable[[Any, Any], bool] = lambda table, number: number in table
) -> Callable[[Counting], Callable[[torch.Tensor], Any]]:
    """Makes functions that count by `step`, and look for the count."""

    def make(counting: Counting) -> Callable[[torch.Tensor], Any]:
        def f(x):
            counting.now += step
            return x * 2 if has(table, counting.now) else x * 3

        return f

    return make


@pytest.mark.parametrize("kind", TABLES)
def test_a_count_is_looked_for(kind: str) -> None:
    compared(looking(TABLES[kind]), 3)  # neither, the one, the other
    compared(looking(TABLES[kind], has=lambda table, number: number not in table), 3)


@pytest.mark.parametrize("kind", ["dict", "set", "list"])
def test_by_its_function(kind: str) -> None:
    compared(looking(TABLES[kind], has=operator.contains), 3)


def test_truth_values_floats_and_nan_are_keys() -> None:
    compared(looking({True, 4}), 3)
    compared(looking({True, float("nan"), 4}), None)  # a set with a NaN breaks
    compared(looking({2.5, 4}, 0.5), 4)  # 0 is an int, all others are floats
    compared(looking(set()), 1)


def test_many_keys() -> None:
    compared(looking({3 * n for n in range(100)}, 100), None, 8)


@pytest.mark.parametrize("table", [Odd({1: 1}), {Wilful(): 1, 7: 2}], ids=["own method", "own equality"])
def test_what_decides_for_itself(table: Any) -> None:
    compared(looking(table), None, 6)


@pytest.mark.parametrize("kind", [set, dict.fromkeys, collections.Counter, frozenset])
def test_the_table_changes(kind: Callable[[list[int]], Any]) -> None:
    counting = Counting()
    counting.table = kind([3])

    def f(x):
        counting.now += 1
        return x + 1 if counting.now in counting.table else x - 1

    compiled = framelift.compile(f, backend="eager")
    seen = [compiled(torch.zeros(1)).item() for _ in range(4)]
    if kind is frozenset:
        counting.table |= {6}
    else:
        counting.table.update(kind([6]))
    seen += [compiled(torch.zeros(1)).item() for _ in range(4)]
    assert seen == [-1, -1, 1, -1, -1, 1, -1, -1]


class Walked(set):  # type: ignore[type-arg]
    """A set that counts who walks over it."""

    walks = 0

    def __iter__(self) -> Any:
        Walked.walks += 1
        return super().__iter__()


def test_a_class_that_counts_walks_is_not_walked() -> None:
    table = Walked((5, 9))
    compared(looking(table), None)
    assert Walked.walks == 0


def test_errors_are_those_of_plain_python() -> None:
    def f(x, container):
        try:
            return x, 1 in container
        except TypeError as error:
            return x, str(error)

    def raises(x, container):
        return x if x.shape[0] not in container else -x

    for container in (1, object(), [1], "a"):
        assert framelift.compile(f, backend="eager")(torch.ones(1), container)[1] == f(torch.ones(1), container)[1]
    with pytest.raises(TypeError, match="is not iterable") as reported:
        framelift.compile(raises, backend="eager")(torch.ones(1), 3)
    assert reported.traceback[-1].lineno == raises.__code__.co_firstlineno


def test_a_break_behind_it() -> None:
    def make(counting: Counting) -> Callable[[torch.Tensor], Any]:
        class Table:
            def __contains__(self, key: int) -> bool:
                framelift.graph_break()
                return key in {2, 4}

        def f(x):
            counting.now += 1
            return x + 1 if counting.now in Table() else x - 1

        return f

    plain, captured = make(Counting()), make(Counting())
    compiled = framelift.compile(captured, backend="eager")
    for _ in range(6):
        assert torch.equal(compiled(torch.ones(1)), plain(torch.ones(1)))

"""Tuples among the arguments of which only some entries are read: the others are no facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.bytecode.resume import read_by_index
from support import World, check, counts

X = torch.ones(2)
SHARED = (2, [1])


def _reads(x: torch.Tensor, sizes: Any) -> torch.Tensor:
    return x.sin() * sizes[1] + sizes[-1]


def _breaks(x: torch.Tensor, sizes: Any) -> torch.Tensor:
    y = x * sizes[0]
    framelift.graph_break()
    return y + sizes[2]


def _gathers(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return x + rest[0]


@pytest.mark.parametrize(
    ("fn", "calls", "captures"),
    [
        (_reads, [((1, 2, 3),), ((11, 2, 3),), ((None, 2, 3),), (([X], 2, 3),)], 1),
        (_reads, [((1, 2),), ((1, 2, 2),)], 2),  # another length: other entries, maybe
        (_reads, [({1: 1, -1: 2},), ((1, 2, 3),), ((4, 2, 3),), ([1, 2, 3],)], 3),
        (_breaks, [((1, 2, 3),), ((1, X, 3),), ((1, object(), 3),)], 2),
        (_gathers, [(1, 2), (1, 3), (1, "a")], 1),
    ],
)
def test_entries_that_nobody_reads(fn: Any, calls: list[Any], captures: int) -> None:
    framelift.reset()
    compiled = framelift.compile(fn, backend="eager", dynamic=False)
    for args in calls:
        assert torch.equal(compiled(X, *args), fn(X, *args)), args
    assert counts().captures == captures


def _same(x: torch.Tensor, one: Any, other: Any) -> Any:
    return x + one[0], other


def _elsewhere(x: torch.Tensor, one: Any) -> Any:
    SHARED[1].append(one[0])
    return x + one[1][-1] + len(SHARED)


def _in_a_loop(x: torch.Tensor, one: Any) -> Any:
    for i in range(3):
        x = x * one[0] + (one[2] if i > 1 else one[-2])
    return x


def _too_far(x: torch.Tensor, one: Any) -> Any:
    return x + one[3]


def test_other_paths_lead_to_the_whole() -> None:
    row = ([X], 2)
    check(lambda x, one, other: _same(x, one, other), X, (2, row), (2, row))
    check(_same, X, SHARED, SHARED)
    check(_elsewhere, X, SHARED, calls=1)
    check(_in_a_loop, X, (2, 3, 4))
    check(_too_far, X, (2, 3, 4), raises=IndexError, graphs=None)


def test_what_is_read_is_guarded() -> None:
    def change(number: int, world: World) -> None:
        world.args[1] = (number, 2, [number], number)

    check(lambda x, one: x + one[2][0], X, (0, 2, [0], 0), mutate=change, calls=3, graphs=None, captures=None)


FORMS: dict[str, tuple[Callable[..., Any], dict[str, set[int]]]] = {
    "one": (lambda a: a[0], {"a": {0}}),
    "several": (lambda a, b: a[0] + a[-1] + b[2], {"a": {0, -1}, "b": {2}}),
    "handed on": (lambda a: (a[0], a), {}),
    "by another number": (lambda a, n: a[n], {}),
    "a slice": (lambda a: a[:1], {}),
    "a choice": (lambda a, n: a[0 if n else n], {}),
    "a key": (lambda a: a["0"], {}),
    "a bool": (lambda a: a[True], {}),
    "in a function": (lambda a: lambda: a[0], {}),
    "looked at": (lambda a: (a[0], locals()), {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    function, found = FORMS[name]
    assert read_by_index(function.__code__) == found

"""Special methods that C code calls, and that give symbolic numbers: C code takes none but its own."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Sized:
    """Holds a number; not by its constructor, which would be given a plain one."""

    number: Any

    def holding(self, number: Any) -> Any:
        self.number = number
        return self

    def __hash__(self) -> int:
        return self.number

    def __index__(self) -> int:
        return self.number

    __int__ = __index__

    def __float__(self) -> float:
        return self.number * 0.5

    def __length_hint__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class Truth:
    number: Any

    def holding(self, number: Any) -> Any:
        self.number = number
        return self

    __bool__ = lambda self: self.number > 3  # noqa: E731


def _told(ask: Callable[[Any], Any], made: type) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        try:
            return x + ask(made().holding(x.shape[0]))
        except TypeError as error:
            return x - 1, str(error)

    return program


def _compare(program: Callable[[Any], Any], *sizes: int) -> None:
    compiled = framelift.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for size in sizes:
        want, got = program(torch.ones(size)), compiled(torch.ones(size))
        assert isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor) and torch.equal(want, got)


ASKED: dict[str, Callable[[Any], Any]] = {
    "hash": hash,
    "dict": lambda one: len({one: 1}),
    "set": lambda one: len({one, one}),
    "index": lambda one: [0, 1, 2, 3, 4, 5, 6, 7][one],
    "slice": lambda one: len([0, 1, 2, 3, 4, 5][:one]),
    "times": lambda one: len([0] * one),
    "range": lambda one: len(range(one)),
    "int": int,
    "float": float,
    "sqrt": math.sqrt,
    "bin": lambda one: len(bin(one)),
    "text": lambda one: len("%d" % one),
    "hint": operator.length_hint,
    "operator": operator.index,
    "called": lambda one: one.__index__(),
}


@pytest.mark.parametrize("name", ASKED)
def test_numbers_that_c_code_asks_for(name: str) -> None:
    _compare(_told(ASKED[name], Sized), 5, 4, 6)


def test_truth_that_c_code_asks_for() -> None:
    _compare(_told(lambda one: 1 if one else 2, Truth), 5, 2, 6)


class Drawn:
    def __hash__(self) -> int:
        return random.randrange(2)

    def __float__(self) -> float:
        return random.random()


def test_numbers_that_are_drawn() -> None:
    def program(x: Any) -> Any:
        try:
            return x + hash(Drawn()) + len({Drawn()}) + float(Drawn())
        except TypeError:
            return x - 1

    compiled = framelift.compile(program, backend="eager")
    for seed in range(4):
        random.seed(seed)
        want = program(torch.ones(2))
        random.seed(seed)
        assert torch.equal(compiled(torch.ones(2)), want)


def test_a_number_that_equals_what_was_calculated_from_it() -> None:
    """Once both are known to be equal, each could stand for the other.

    Lines that calculate one from itself must not come of it.
    """

    def program(x: Any, number: Any) -> Any:
        return x + 1, int(float(number)) == number, int(number * 1.0) + number

    compiled = framelift.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for number in (3, 5, -7, 2**53 + 1, 0):
        assert compiled(torch.ones(2), number)[1:] == program(torch.ones(2), number)[1:]

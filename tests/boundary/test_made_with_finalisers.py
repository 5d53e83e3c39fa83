"""Objects with a finaliser made by captured code: it runs as often as in eager, also where a rehearsal is given up."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import framelift

ended: list[str] = []


class Ends:
    def __del__(self, ended: list[str] = ended) -> None:  # a default: it also runs when the process ends
        ended.append(type(self).__name__)


class Box(Ends):
    pass


class Made(Ends):
    def __new__(cls) -> Any:
        return object.__new__(cls)


class Row(tuple, Ends):
    __slots__ = ()


class Table(dict, Ends):
    pass


class Number(int, Ends):
    pass


class Failure(Exception, Ends):
    pass


class Plain:
    pass


def turned() -> Any:
    made: Any = Plain()
    made.__class__ = Box
    return made


def set_by_name() -> Any:
    made: Any = Plain()
    setattr(made, "__class__", Box)  # noqa: B010
    return made


BOX = Box()
WAYS = {
    "call": Box,
    "its own new": Made,
    "object.__new__": lambda: object.__new__(Box),
    "super": lambda: super(Made, Made).__new__(Made),
    "copy": lambda: copy.copy(BOX),
    "deepcopy": lambda: copy.deepcopy(BOX),
    "tuple.__new__": lambda: tuple.__new__(Row, (1,)),
    "dict.__new__": lambda: dict.__new__(Table),
    "fromkeys": lambda: Table.fromkeys([1]),
    "from_bytes": lambda: Number.from_bytes(b"1", "big"),
    "Exception.__new__": lambda: Exception.__new__(Failure),
    "__class__": turned,
    "setattr": set_by_name,
}


@pytest.mark.parametrize("leaves", [False, True], ids=["dies inside", "is returned"])
@pytest.mark.parametrize("way", WAYS)
def test_a_finaliser_runs_as_often_as_in_eager(way: str, leaves: bool) -> None:
    make = WAYS[way]

    def f(x):
        made = make()
        return (x + 1, made) if leaves else (x + 1, 0)

    c = framelift.compile(f, backend="eager")
    for _ in range(3):
        found = []
        for run in (f, c):
            ended.clear()
            result = run(torch.ones(2))
            inside = list(ended)
            assert torch.equal(result[0], torch.full((2,), 2.0))
            del result
            found.append((inside, list(ended)))
        assert found[0] == found[1]

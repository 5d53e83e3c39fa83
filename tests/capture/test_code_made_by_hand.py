"""Code whose constants were put there by the program: no compiler writes such code, and nothing watches the objects."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

import framelift
from support import check


class Settings:
    factor = 1.0

    def __len__(self) -> int:
        return int(self.factor)


def holding(value: Any, function: types.FunctionType) -> types.FunctionType:
    """The function with `value` in the place of the constant 'held'."""
    constants = tuple(value if one == "held" else one for one in function.__code__.co_consts)
    return types.FunctionType(function.__code__.replace(co_consts=constants), function.__globals__)


def held() -> Any:
    return "held"


def use(x: torch.Tensor) -> Any:
    return x * len("held")


OBJECTS: list[Callable[[], Any]] = [
    Settings,
    lambda: [1, 2],
    lambda: {1, 9},
    lambda: {"a": 1},
    lambda: bytearray(b"a"),
    lambda: numpy.ones(2),
]


@pytest.mark.parametrize("make", OBJECTS)
def test_of_a_callee(make: Callable[[], Any]) -> None:
    get = holding(make(), held)

    def f(x: torch.Tensor) -> Any:
        return x * len(get()) + 1

    check(f, torch.ones(2), breaks=None, graphs=None)
    with pytest.raises(framelift.exc.Unsupported, match="objects no compiler puts there"):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("make", OBJECTS)
def test_of_the_root(make: Callable[[], Any]) -> None:
    root = holding(make(), use)
    compiled = framelift.compile(root, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), root(torch.ones(2)))
    (refusal,) = compiled.report().refusals
    assert refusal.why == "code" and "objects no compiler puts there" in refusal.sentence
    with pytest.raises(framelift.exc.Unsupported, match="objects no compiler puts there"):
        framelift.compile(root, backend="eager", fullgraph=True)(torch.ones(2))


def test_of_a_frame_that_is_met_in_a_plain_run() -> None:
    inner = holding([1, 2], use)

    def f(x: torch.Tensor) -> Any:
        print(end="")
        return inner(x) + 1

    check(f, torch.ones(2), breaks=None, graphs=None)


def test_an_object_that_changes() -> None:
    settings = Settings()
    get = holding(settings, held)

    def f(x: torch.Tensor) -> Any:
        return x * get().factor

    compiled = framelift.compile(f, backend="eager")
    for factor in (1.0, 2.0, 3.0):
        settings.factor = factor
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), factor))

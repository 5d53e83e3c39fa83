"""`as_strided` with offsets, `as_strided_` and `set_`: tensors over the memory of others, as in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import check


def _set(x, y):
    moved = x * 2
    before = moved + 1
    moved.set_(y)
    return before, moved + 1, moved


def _set_and_written(x, y):
    moved = torch.empty(0)
    moved.set_(y)
    moved.add_(1)
    y.mul_(2)
    return moved, x + moved.sum(), moved.shape


def _set_to_a_result(x, y):
    moved, result = torch.zeros(3), x + 1
    moved.set_(result)
    result.mul_(2)
    moved.sub_(1)
    return moved, result, moved.stride()


def _set_of_known_values(x, y):
    moved = torch.zeros(2)
    moved.set_(torch.ones(2))
    return x * 2 if moved.sum() == 2 else x * 3


def _strided_in_place(x, y):
    moved = x * 2
    moved.as_strided_((2, 2), (2, 1))
    moved.add_(1)
    return moved, moved.shape, moved.stride(), moved * 2


def _strided_in_place_function(x, y):
    return torch.as_strided_(y + 1, (2,), (2,)) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("f", [_set, _set_and_written, _set_to_a_result, _strided_in_place, _strided_in_place_function])
def test_moved(f: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        sides = []
        for run in (f, compiled):
            x, y = torch.arange(4.0), torch.arange(6.0)
            sides.append((run(x, y), x, y))
        torch.testing.assert_close(*sides, rtol=0, atol=0)


def test_the_moved_tensor_shares_its_memory() -> None:
    def f(x, y):
        moved = x * 2
        moved.set_(y)
        return moved

    x, y = torch.ones(2), torch.ones(3)
    moved = framelift.compile(f, backend="eager", fullgraph=True)(x, y)
    assert moved is not y and moved.data_ptr() == y.data_ptr()


def test_a_view_of_the_memory_before() -> None:
    def f(x, y):
        moved = x * 2
        view = moved[1:]
        moved.set_(y)
        view.mul_(3)
        return view, moved + 1, moved

    check(f, torch.ones(4), torch.ones(2))


def test_what_is_not_moved_while_capturing() -> None:
    def of_input(x):
        x.set_(torch.ones(3))
        return x + 1

    def with_history(x):
        moved = x * 2
        with torch.no_grad():
            moved.set_(torch.ones(4))
        return moved + 1

    def to_storage(x):
        moved = x * 2
        moved.set_(x.untyped_storage())
        return moved + 1

    check(_set_of_known_values, torch.zeros(3), torch.zeros(3), graphs=None, breaks=None)
    check(of_input, torch.zeros(3), graphs=None, breaks=None)
    check(with_history, torch.zeros(3).requires_grad_(), graphs=None, breaks=None)
    check(to_storage, torch.zeros(3), graphs=None, breaks=None)


def _whole(x):
    return torch.as_strided(x, (3, 3), (2, 1), 1) + 1


def _of_view(x):
    return torch.as_strided(x[2:], (3, 2), (2, 1), 0) + 1


def _written(x):
    x.as_strided((4,), (1,), 0).add_(1)
    return x * 2


@pytest.mark.parametrize("f", [_whole, _of_view, _written])
def test_offsets(f: Callable[..., Any]) -> None:
    """From the beginning of the storage, which is the caller's; another offset or storage is another capture."""
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for start in (2, 2, 0, 3):
        sides = []
        for run in (f, compiled):
            base = torch.arange(16.0)
            sides.append((run(base[start : start + 10]), base))
        torch.testing.assert_close(*sides, rtol=0, atol=0)


def test_an_offset_beyond_the_storage() -> None:
    def f(x):
        return torch.as_strided(x, (3, 3), (2, 1), 8) + 1

    with pytest.raises(RuntimeError, match="out of bounds"):
        framelift.compile(f, backend="eager")(torch.arange(10.0)[2:])

"""Tensors indexed by numbers that change: captured twice, whatever else is in the index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

READ: dict[str, Callable[[Any, Any], Any]] = {
    "n": lambda x, n: x[n],
    "-n": lambda x, n: x[-n],
    "n,1": lambda x, n: x[n, 1],
    "1,n": lambda x, n: x[1, n],
    ":,n": lambda x, n: x[:, n],
    "...,n": lambda x, n: x[..., n],
    "n,...": lambda x, n: x[n, ...],
    "None,n": lambda x, n: x[None, n],
    "n,None,:,n": lambda x, n: x[n, None, :, n],
    "n-1:,n": lambda x, n: x[n - 1 :, n],
    "::2,n,None": lambda x, n: x[::2, n, None],
    "n][n": lambda x, n: x[n - 1][n],
    "n,n,n": lambda x, n: x[n, n, n],
    "1,...,n": lambda x, n: x[1, ..., n],
    "None,...,n,:": lambda x, n: x[None, ..., n, :],
    "size": lambda x, n: x[x.size(0) - n],
}


def _fill(y: Any, n: Any) -> None:
    y[n] = 5


def _column(y: Any, n: Any) -> None:
    y[:, n] = torch.arange(6.0)


def _spread(y: Any, n: Any) -> None:
    y[n, :, n] = torch.ones(1, 1, 6)


def _in_place(y: Any, n: Any) -> None:
    y[..., n] += 1


def _other_row(y: Any, n: Any) -> None:
    y[n] = y[n - 1]


def _single(y: Any, n: Any) -> None:
    y[n, n, n] = torch.tensor(3)


def _rest(y: Any, n: Any) -> None:
    y[n:, n] = True


def _wrote(write: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
    def program(x: Any, n: Any) -> Any:
        y = x.clone()
        write(y, n)
        return y

    return program


PROGRAMS = {
    **READ,
    **{write.__name__: _wrote(write) for write in (_fill, _column, _spread, _in_place, _other_row, _single, _rest)},
}


def _outcome(fn: Any, n: int) -> Any:
    try:
        found = fn(torch.arange(216.0).reshape(6, 6, 6), n)
    except (IndexError, TypeError) as error:
        return type(error), str(error)
    return found.tolist(), found.stride(), found.storage_offset(), found._is_view(), found.dtype


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_change_stay_numbers_in_an_index(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(fn, backend="eager")
    before = framelift.stats()["captures"]
    for n in (2, 3, 4, 5):
        assert _outcome(compiled, n) == _outcome(fn, n)
    assert framelift.stats()["captures"] - before == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: x[n, n, n, n],
        lambda x, n: x[n + 100],
        lambda x, n: x[..., n, ...],
        lambda x, n: x[n, torch.tensor([0, 1])],
        lambda x, n: x[[0, n]],
        lambda x, n: x[n, True],
    ],
)
def test_other_indices_are_torch_s_own_affair(fn: Any) -> None:
    compiled = framelift.compile(fn, backend="eager")
    for n in (2, 3, 4):
        assert _outcome(compiled, n) == _outcome(fn, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.bool])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: x.new_tensor(n),
        lambda x, n: x.new_tensor([n, 2 * n]),
        lambda x, n: x.new_tensor([[n], [1]]),
        lambda x, n: torch.tensor([n, 2]) + x,
    ],
)
def test_tensors_made_of_numbers_that_change(fn: Any, dtype: torch.dtype) -> None:
    compiled = framelift.compile(fn, backend="eager")
    before = framelift.stats()["captures"]
    for n in (3, 4, 5, 6):
        x = torch.ones(2).to(dtype)
        got, want = compiled(x, n), fn(x, n)
        assert torch.equal(got, want) and got.dtype == want.dtype
    assert framelift.stats()["captures"] - before == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x, n: f(x, slice(0, n)),
        lambda f, x, n: f(x, slice(n, None)),
        lambda f, x, n: f(x, slice(-n, 9, 2)),
        lambda f, x, n: f(x, (slice(1, n), None)),
    ],
)
def test_slices_that_change_are_captured_twice(call: Any) -> None:
    def fn(x: torch.Tensor, where: Any) -> torch.Tensor:
        return x[where] + 1

    compiled = framelift.compile(fn, backend="eager")
    before = framelift.stats()["captures"]
    for n in (3, 4, 5, 6):
        x = torch.arange(10.0)
        assert torch.equal(call(compiled, x, n), call(fn, x, n))
    assert framelift.stats()["captures"] - before == 2


def test_functions_that_die_with_each_call_are_told_by_their_code() -> None:
    """Another function may lie where the last one lay."""

    def fn(x: torch.Tensor, f: Any) -> torch.Tensor:
        return f(x)

    compiled = framelift.compile(fn, backend="eager")
    before = framelift.stats()["captures"]
    for n in range(3, 9):
        assert torch.equal(compiled(torch.ones(2), lambda x: x * n), torch.full((2,), float(n)))  # noqa: B023
    for n in range(3, 9):
        assert torch.equal(
            compiled(torch.ones(2), functools.partial(lambda k, x: x * k, n)), torch.full((2,), float(n))
        )
    assert framelift.stats()["captures"] - before <= 4

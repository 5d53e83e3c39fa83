"""`tensor._version` of inputs, with the program's own writes counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check


def _read(x: torch.Tensor) -> Any:
    return x._version, x + 1


def _written(x: torch.Tensor) -> Any:
    before = x._version
    x.add_(1)
    x *= 2
    part = x[0:2]
    part.zero_()
    return before, x._version, part._version, x.detach()._version, x.data._version, x + 1


def _by_data(x: torch.Tensor) -> Any:
    x.data.add_(1)
    return x._version, x + 1


def _reshaped(x: torch.Tensor) -> Any:
    x.unsqueeze_(0).squeeze_()
    return x._version, x + 1


@pytest.mark.parametrize("program", [_read, _written, _by_data, _reshaped])
def test_as_in_eager_mode(program: Any) -> None:
    check(program, torch.ones(3), calls=4, graphs=None, breaks=None, captures=None)


@pytest.mark.parametrize("program", [_read, _by_data])
def test_one_capture(program: Any) -> None:
    check(program, torch.ones(3), calls=3)


def test_a_counter_that_changes_is_symbolic() -> None:
    def f(x: torch.Tensor) -> Any:
        x.add_(1)
        return x._version

    compiled, x = framelift.compile(f, backend="eager", fullgraph=True), torch.ones(3)
    assert [compiled(x) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert framelift.stats()["captures"] == 2


def test_writes_of_which_it_is_not_known_how_often_they_count() -> None:
    def f(x: torch.Tensor) -> Any:
        torch.add(x, 1, out=x)
        return x._version

    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(3))
    assert framelift.compile(f, backend="eager")(torch.ones(3)) == 1

"""In-place operations whose arguments share memory: with every backend what plain PyTorch does, refusals included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import check

_REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "expanded": lambda x: x[0].expand(3, 4).add_(1),
    "shifted copy": lambda x: x.view(-1)[1:].copy_(x.view(-1)[:-1]),
    "shifted add": lambda x: x.view(-1)[1:].add_(x.view(-1)[:-1]),
    "shifted rows": lambda x: x[1:].mul_(x[:-1]),
    "out": lambda x: torch.add(x[1:], x[:-1], out=x[1:]),
    "assignment": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "made inside": lambda x: _shift_inside(x),
}
_ALLOWED: dict[str, Callable[[torch.Tensor], Any]] = {
    "two rows": lambda x: x[0].add_(x[1]),
    "assignment of a row": lambda x: x.__setitem__(0, x[1]),
    "even and odd": lambda x: x.view(-1)[::2].add_(x.view(-1)[1::2]),
    "columns": lambda x: x[:, 0].copy_(x[:, 1]),
    "itself": lambda x: x.add_(x),
    "the same view": lambda x: x[1:].add_(x[1:]),
    "two inside": lambda x: (x * 2)[0].add_((x * 2)[1]),
}


def _shift_inside(x: torch.Tensor) -> Any:
    y = (x * 2).view(-1)
    return y[1:].add_(y[:-1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", _REFUSED)
def test_what_kernels_refuse_is_refused(name: str, backend: str) -> None:
    check(
        _REFUSED[name], torch.rand(3, 4), raises=RuntimeError, backend=backend, graphs=None, breaks=None, captures=None
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", _ALLOWED)
def test_arguments_without_a_common_element_are_captured(name: str, backend: str) -> None:
    check(_ALLOWED[name], torch.rand(3, 4), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_order_of_elements_that_share_a_place_is_plain_pytorchs(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((2, 2), (1, 1)).mul_(2)
        return x

    check(f, torch.ones(3), backend=backend, graphs=None, breaks=None, captures=None)


def _joined_views(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    left, right = y.chunk(2, 1)
    left.copy_(right)
    y[:, :1].add_(y[:, 1:2])
    y[1:] += y[1:]
    return y


def _turned(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2)[:3, :3]
    row = y[0]
    y.t_()
    y[0].add_(row)  # a column now, with one element of the row
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_one_result_are_told_apart(backend: str) -> None:
    check(_joined_views, torch.rand(3, 4), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_what_was_turned_in_place_since(backend: str) -> None:
    check(_turned, torch.rand(3, 4), backend=backend, graphs=None, breaks=None, captures=None)


def _other_rows(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    first = y[0]
    first[..., 1::2] = y[1, ..., 1::2]
    y[2][1:].add_(y[1][1:])
    y[-1].mul_(y[-2, :])
    return y


def _same_row(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[0][1:].add_(y[0, :-1])
    return y


def _same_row_by_two_names(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[3][1:].add_(y[-1, :-1])
    return y


def _rows_that_overlap(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_strided((3, x.shape[1]), (1, 1)).fill_(2)
    y[0].add_(y[1])
    return y


def _rows_of_a_turned(x: torch.Tensor) -> torch.Tensor:
    y = x[:3, :3] * 2
    row = y[0]
    y.t_()
    y[1].add_(row)
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_rows_of_one_result_are_told_apart_whatever_their_size(backend: str) -> None:
    before = framelift.stats()["captures"]
    compiled = framelift.compile(_other_rows, backend=backend, dynamic=True, fullgraph=True)
    for size in (4, 5, 7):
        x = torch.rand(4, size)
        assert torch.equal(compiled(x), _other_rows(x))
    assert framelift.stats()["captures"] == before + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [_same_row, _same_row_by_two_names, _rows_that_overlap, _rows_of_a_turned])
def test_rows_that_may_share_an_element_are_plain_pytorchs(function: Any, backend: str) -> None:
    for dynamic in (False, True):
        compiled = framelift.compile(function, backend=backend, dynamic=dynamic)
        x = torch.rand(4, 5)
        try:
            expected: Any = function(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)[:30]):
                compiled(x)
        else:
            assert torch.equal(compiled(x), expected)

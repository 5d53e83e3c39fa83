"""`tensor._version` of inputs and results, with the program's own writes counted."""

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


def _of_result(x: torch.Tensor) -> Any:
    result = x * 2
    before = result._version
    result.add_(1)
    part = result[1:]
    part.mul_(3)
    return result, before, result._version, part._version, result.detach()._version, (x + 1)._version


@pytest.mark.parametrize("grad", [False, True])
def test_results_begin_at_zero(grad: bool) -> None:
    check(_of_result, torch.ones(3).requires_grad_(grad))


def test_results_of_which_it_is_not_known_how_they_were_made() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, torch.nn.functional.linear(x, x)._version, torch.cat([x, x])._version

    check(f, torch.ones(3, 3), graphs=None, breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inside_a_frame_the_count_is_that_of_plain_python_whatever_compiles_it(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        result = x + 1
        result.add_(1)
        x.mul_(2)
        return result._version, x._version

    compiled = framelift.compile(f, backend=backend, fullgraph=True)
    assert [compiled(torch.ones(size)) for size in (2, 3, 4)] == [(1, 1)] * 3


def test_what_inference_mode_made_has_no_counter() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.inference_mode():
            made = x * 2
        return made._version

    check(f, torch.ones(3), graphs=None, breaks=None)

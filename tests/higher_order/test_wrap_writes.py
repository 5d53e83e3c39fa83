"""Bodies of `wrap` that write to tensors from outside of them: they run exactly once, where the program calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.wrap import wrap

import framelift

Program = Callable[..., Any]


def _argument(x: torch.Tensor) -> Any:
    return wrap(lambda y: y.add_(1) * 2, x), x + 1


def _result(x: torch.Tensor) -> Any:
    y = x * 2
    view = y[:3]
    made = wrap(lambda z: z.mul_(3)[:3] + view, y)
    view.add_(1)
    return made, y, view


def _from_around(x: torch.Tensor) -> Any:
    def body(y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y + 1

    return wrap(body, x * 2), x


def _given_back(x: torch.Tensor) -> Any:
    def body(y: torch.Tensor) -> torch.Tensor:
        y[0] = 5
        return y

    made = wrap(body, x)
    return made, made is x, x.sum()


def _nested(x: torch.Tensor) -> Any:
    return wrap(lambda y: wrap(lambda z: z.add_(1), y) * 2, x), x * 1


PROGRAMS = [_argument, _result, _from_around, _given_back, _nested]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_plain_python(program: Program, backend: str) -> None:
    function = framelift.compile(program, backend=backend, fullgraph=True)
    mine, plain = torch.arange(6.0), torch.arange(6.0)
    for _ in range(3):
        torch.testing.assert_close(function(mine), program(plain))
        assert mine.tolist() == plain.tolist()
    assert len(function.entries) == 1


def test_gradients_through_a_write() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * 1
        return wrap(lambda z: z.mul_(w).sin(), y).sum() + y.sum()

    function = framelift.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        mine, plain = (torch.linspace(0, 1, 4).requires_grad_() for _ in range(2))
        function(torch.arange(4.0), mine).backward()
        program(torch.arange(4.0), plain).backward()
        torch.testing.assert_close(mine.grad, plain.grad)


def test_a_write_before_an_error_is_done_once() -> None:
    def program(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        wrap(lambda y: y.add_(1) * 2, x)
        return x[at]

    function = framelift.compile(program, backend="eager", fullgraph=True)
    mine, plain = torch.zeros(3), torch.zeros(3)
    for at in (torch.tensor([1]), torch.tensor([7])):
        for run, x in ((function, mine), (program, plain)):
            try:
                run(x, at)
            except IndexError as error:
                assert "out of bounds" in str(error)
        assert mine.tolist() == plain.tolist()


def test_checkpoints_are_still_refused_writes() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        made = torch.utils.checkpoint.checkpoint(lambda y: y.add_(1) * w, x, use_reentrant=False)
        return made, x * 1

    function = framelift.compile(program, backend="eager")
    mine, plain = torch.zeros(3), torch.zeros(3)
    for _ in range(2):
        w = torch.ones(3, requires_grad=True)
        torch.testing.assert_close(function(mine, w), program(plain, w))
        assert mine.tolist() == plain.tolist()

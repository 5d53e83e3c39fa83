"""Writes to a tensor's memory by way of `detach` and `data`, beside operations that autograd differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def before(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    w.detach().add_(x)
    return (w * 2).sum()


def between(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    y = (w * x).sum()
    w.detach().add_(x)
    return y + (w * 2).sum()


def saved_before(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    y = (w * w).sum()
    w.detach().add_(x)
    return y + (w * 2).sum()


def by_data(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    w.data.add_(x)
    return (w * w).sum()


def other_input(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    d.add_(x)
    return (w * w).sum()


def without_grad(w: torch.Tensor, x: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.add_(x)
    return (w * x).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("of", [torch.Tensor.detach, lambda w: w.data])
@pytest.mark.parametrize("program", [before, between, saved_before, by_data, other_input, without_grad])
def test_values_and_gradients(program: Any, of: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    def run(fn: Any) -> list[Any]:
        w, rows = torch.ones(3, requires_grad=True), []
        for number in range(3):
            try:
                out = fn(w, torch.ones(3) + number, of(w))
                out.backward()
                assert w.grad is not None
                rows.append((out.item(), w.tolist(), w.grad.tolist()))
            except RuntimeError as error:  # autograd saved what was written since
                rows.append(("modified by an inplace operation" in str(error), w.tolist()))
        return rows

    assert run(framelift.compile(program, backend=backend)) == run(program)

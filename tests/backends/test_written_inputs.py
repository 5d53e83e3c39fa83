"""A forward that writes to an input has the gradients of plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def added(c: Any, w: Any) -> Any:
    c += 1
    return w * c


def read_before(c: Any, w: Any) -> Any:
    y = w * (c + 2).sin()
    c.mul_(3)
    return y


def copied_before(c: Any, w: Any) -> Any:
    y = w * c.clone()
    c.zero_()
    return y


def through_views(c: Any, w: Any) -> Any:
    c.view(-1)[1:].add_(1)
    return (w.view(-1)[1:] * c.view(-1)[1:].exp()).cos()


def views_copied_before(c: Any, w: Any) -> Any:
    y = w * c.view(1, 3).clone().t()
    c.zero_()
    return y


def running_mean(c: Any, w: Any) -> Any:
    c.lerp_(w.detach(), 0.5)
    return (w - c) * (c + 1).rsqrt()


FUNCTIONS = (added, copied_before, read_before, through_views, views_copied_before, running_mean)


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_gradients(backend: str) -> None:
    for function in FUNCTIONS[: 2 if backend == "inductor" else None]:
        found = [
            _steps(one, torch.zeros(3, 1) + 0.25) for one in (function, framelift.compile(function, backend=backend))
        ]
        torch.testing.assert_close(*found)


def _steps(function: Callable[..., Any], c: Any) -> list[Any]:
    found = []
    for _ in range(3):
        w = torch.full((3, 1), 2.0, requires_grad=True)
        function(c, w).sum().backward()
        found += [w.grad, c.clone()]
    return found

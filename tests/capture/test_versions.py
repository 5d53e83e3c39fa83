"""Version counters of tensors that compiled graphs write: as many writes as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

Program = Callable[[torch.Tensor], Any]


def once(x: torch.Tensor) -> Any:
    x.add_(3)
    return x * 1


def several(x: torch.Tensor) -> Any:
    x.add_(1)
    x.mul_(2)
    torch.add(x, 1, out=x)
    return x + 1


def views(x: torch.Tensor) -> Any:
    x[0] = 1
    x.view(-1).mul_(2)
    x.t().add_(1)
    return x.sum()


def lists(x: torch.Tensor) -> Any:
    torch._foreach_add_([x], 1)
    x[1:].copy_(x[:1])
    return None


def without_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        x.add_(1)
        x.mul_(2)


def detached(x: torch.Tensor) -> Any:
    x.detach().add_(1)
    return x * 2


def detached_views(x: torch.Tensor) -> Any:
    x.detach().detach()[0].add_(1)
    x.view(-1).detach().mul_(2)
    return torch.detach(x).view(-1).zero_()


def data(x: torch.Tensor) -> Any:
    """`data` has a counter of its own."""
    x.data.add_(1)
    x.data.view(-1).detach().mul_(2)
    return x * 2


def data_and_itself(x: torch.Tensor) -> Any:
    x.data[0] = 5
    x[1] = 6
    x.detach().copy_(x * 2)
    return x.sum()


PROGRAMS = [once, several, views, lists, without_grad, detached, detached_views, data, data_and_itself]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_versions_count_the_writes_of_eager_mode(program: Program, backend: str) -> None:
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    for calls in (1, 2, 3):
        seen, expected = (torch.ones(2, 2, requires_grad=program is without_grad) for _ in "ab")
        for _ in range(calls):
            compiled(seen)
            program(expected)
        assert torch.equal(seen, expected) and seen._version == expected._version


def test_what_autograd_has_saved_keeps_its_version() -> None:
    """A tensor that a backward needs, written by the graph that saves it."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x.mul_(2)
        return (x * w).sum()

    found = []
    for function in (program, framelift.compile(program, backend="aot_eager", fullgraph=True)):
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        function(x, w).backward()
        found.append(w.grad)
    assert torch.equal(*found)

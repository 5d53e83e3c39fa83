"""Captures whose graphs have bodies (activation checkpoints, torch.cond), kept on disk; and what is still rehearsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import framelift
from framelift import config
from kept_support import counted

LAYER = torch.nn.Linear(3, 3)
SCALE = 2


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


def inner(x: torch.Tensor) -> torch.Tensor:
    return LAYER(x).relu() * SCALE


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    y = checkpoint(inner, x, use_reentrant=False)
    return checkpoint(lambda z: checkpoint(inner, z, use_reentrant=False).sin(), y, use_reentrant=False).sum()


def branching(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda y: y.sin() * SCALE, lambda y: y.cos(), (x,)).sum()


def in_modes(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * SCALE
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = LAYER(y)
    return (z.float() + y * x).sum()


@pytest.mark.parametrize("function", [checkpointed, branching, in_modes])
def test_bodies_are_loaded(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> tuple[Any, Any, int, int]:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        LAYER.zero_grad()
        result, captures, loaded = counted(function, x)
        result.backward()
        return result.item(), (x.grad, LAYER.weight.grad), captures, loaded

    def eager() -> tuple[Any, Any]:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        LAYER.zero_grad()
        result = function(x)
        result.backward()
        return result.item(), (x.grad, LAYER.weight.grad)

    for scale, counts in ((2, (1, 0)), (2, (0, 1)), (3, (1, 0)), (3, (0, 1))):
        monkeypatch.setitem(globals(), "SCALE", scale)
        result, grads, *found = run()
        wanted, expected = eager()
        assert result == wanted and repr(grads) == repr(expected)
        assert tuple(found) == counts, framelift.stats()["not_kept"]

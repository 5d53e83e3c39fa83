"""Captures of training steps, kept on disk: gradients that the graph adds to, and tables whose keys are tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


class Training:
    """A model, its optimizer and a batch, the same each time."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.x = torch.randn(2, 3)
        self.parameters = list(self.model.parameters())

    def state(self) -> Any:
        """All that a step changes."""
        grads = [None if one.grad is None else one.grad.tolist() for one in self.parameters]
        return [one.tolist() for one in self.parameters], grads

    def hook(self) -> None:
        """From now on a gradient is changed on its way."""
        self.parameters[0].register_hook(lambda grad: grad * 10)


def backward(t: Training) -> torch.Tensor:
    loss = t.model(t.x).pow(2).mean()
    loss.backward()
    return loss.detach()


def step(t: Training) -> torch.Tensor:
    t.optimizer.zero_grad()
    loss = backward(t)
    t.optimizer.step()
    return loss


def run(function: Any, hooked: bool = False) -> tuple[int, int]:
    """Some steps as in a new process, compared with eager mode: how many captures were rehearsed, and loaded."""
    framelift.reset()
    before = framelift.stats()
    compiled = framelift.compile(function, backend="eager")
    one, other = Training(), Training()
    for number in range(4):
        if hooked and number == 2:
            one.hook(), other.hook()
        assert compiled(one).equal(function(other)) and one.state() == other.state()
    after = framelift.stats()
    assert not after["not_kept"]
    return after["captures"] - before["captures"], after["loaded"] - before["loaded"]


@pytest.mark.parametrize("function", [backward, step])
def test_training_steps_are_loaded(function: Any) -> None:
    if function is step and "torch._dynamo" in sys.modules:
        pytest.skip("TorchDynamo, once imported, wraps methods of optimizers in functions that no name leads to")
    captures, loaded = run(function)
    assert captures and not loaded
    assert run(function) == (0, captures)


@pytest.mark.parametrize("first", [False, True])
def test_hooks_are_seen(first: bool) -> None:
    run(backward, first)
    run(backward, not first)  # equal to eager mode, whatever was kept
    run(backward, first)


TABLE: dict[torch.Tensor, int] = {}


def looked_up(key: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x * TABLE.get(key, 7) + len(TABLE)


def test_keys_that_are_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(order: tuple[int, ...]) -> tuple[int, int]:
        framelift.reset()
        before = framelift.stats()
        keys = [torch.zeros(1) for _ in range(3)]
        monkeypatch.setitem(globals(), "TABLE", {keys[0]: 2, keys[1]: 3})
        compiled = framelift.compile(looked_up, backend="eager")
        for one in order:
            assert compiled(keys[one], torch.ones(2)).equal(looked_up(keys[one], torch.ones(2)))
        after = framelift.stats()
        return after["captures"] - before["captures"], after["loaded"] - before["loaded"]

    assert calls((0, 1, 2)) == (3, 0)
    assert calls((2, 1, 0)) == (0, 3), framelift.stats()["not_kept"]
    assert calls((1, 0, 2)) == (0, 3)

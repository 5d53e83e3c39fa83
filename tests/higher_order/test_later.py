"""Hooks and backwards run after the frame.

What they look at is what it is then, not what it was when they were registered.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift

SCALE = 2.0


class Settings:
    """An object of the program's."""

    def __init__(self) -> None:
        self.scale, self.other, self.inner = 2.0, 0, [3.0]


SETTINGS = Settings()


class Kept(torch.autograd.Function):
    """Its backward looks at a list that others hold too, and at an attribute of its class."""

    rate = 1.0
    last: Any = None

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = [2.0]
        Kept.last = ctx.kept
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad * ctx.kept[0] * Kept.rate


def loop(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        x = x * 1
        x.register_hook(lambda grad: grad * (i + 1))
    return x


def set_again(x: torch.Tensor) -> torch.Tensor:
    scale = 2.0
    y = x * 1
    y.register_hook(lambda grad: grad * scale)
    scale = 3.0
    return y


def appended(x: torch.Tensor) -> torch.Tensor:
    scales = [2.0]
    y = x * 1
    y.register_hook(lambda grad: grad * sum(scales))
    scales.append(5.0)
    return y


def written(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.register_hook(lambda grad: grad * SETTINGS.scale)
    SETTINGS.scale = 7.0
    return y


def global_set(x: torch.Tensor) -> torch.Tensor:
    global SCALE
    y = x * 1
    y.register_hook(lambda grad: grad * SCALE)
    SCALE = 11.0
    return y


def behind_a_break(x: torch.Tensor) -> torch.Tensor:
    scale = 2.0
    y = x * 1
    y.register_hook(lambda grad: grad * scale)
    framelift.graph_break()
    scale = 13.0
    return y


def kept_list(x: torch.Tensor) -> torch.Tensor:
    y = Kept.apply(x)
    Kept.last[0] = 5.0
    return y


def class_attribute(x: torch.Tensor) -> torch.Tensor:
    y = Kept.apply(x)
    Kept.rate = 4.0
    return y


def hooked_module(x: torch.Tensor) -> torch.Tensor:
    layer = LAYER
    y = layer(x * 1)
    layer.rate = 6.0
    return y


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = 1.0
        self.register_full_backward_hook(lambda module, given, above: (given[0] * module.rate,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


LAYER = Layer()


def _gradient(run: Any) -> torch.Tensor:
    global SCALE
    SETTINGS.scale, SCALE, Kept.rate, LAYER.rate = 2.0, 2.0, 1.0, 1.0
    x = torch.ones(2, requires_grad=True)
    run(x).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize(
    "program",
    [loop, set_again, appended, written, global_set, behind_a_break, kept_list, class_attribute, hooked_module],
)
def test_what_changes_afterwards_is_seen(program: Any) -> None:
    wanted = _gradient(program)
    run = framelift.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(_gradient(run), wanted)


def test_what_does_not_change_is_captured() -> None:
    def f(x: torch.Tensor, scale: float) -> torch.Tensor:
        factors = (scale, SCALE)
        y = x * 1
        y.register_hook(lambda grad: grad * factors[0] * factors[1])
        SETTINGS.other += 1
        z = y * 1
        factors = factors
        return z

    wanted = _gradient(lambda x: f(x, 3.0))
    run = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(_gradient(lambda x: run(x, 3.0)), wanted)

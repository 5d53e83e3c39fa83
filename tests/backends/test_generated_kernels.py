"""Equal layers with Inductor's own kernels, beside eager mode: two calls without gradients, then three training steps.

The models are small; each compiles C++.  `make nightly` runs all of them, `make test` the first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import framelift

LAYERS = 3


class Stacked(nn.Module):
    """A stem and equal layers."""

    def __init__(self, stem: nn.Module, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.stem, self.layers = stem, nn.ModuleList(layer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts(x)


class FrozenNorm(nn.BatchNorm2d):
    def train(self, mode: bool = True) -> Any:
        return super().train(False)


class Checkpointed(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(super().forward, x, use_reentrant=False)


class LowRank(nn.Module):
    """A frozen weight beside two trained ones of low rank, which are merged by a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(16, 16).requires_grad_(False)
        self.down, self.up, self.merged = nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.weight(x)
        return F.gelu(x) if self.merged else F.gelu(x + self.up(self.down(x)) * 0.5)


class KeysAndValues(nn.Module):
    """Attention over what earlier calls left: `static` is written in place at a place that moves, `sliding` shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.at = nn.Linear(16, 48), 0
        self.register_buffer("static", torch.zeros(2, 2, 32, 16))
        self.register_buffer("sliding", torch.zeros(2, 2, 6, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        query, *new = self.project(x).chunk(3, -1)
        if torch.is_grad_enabled():
            return x + F.scaled_dot_product_attention(query, *new)
        for number, one in enumerate(new):
            self.static[number, :, self.at : self.at + length] = one
            self.sliding[number].copy_(torch.cat([self.sliding[number, :, length:], one], 1))
        self.at += length
        far = F.scaled_dot_product_attention(query, *self.static[:, :, : self.at])
        return x + far + F.scaled_dot_product_attention(query, *self.sliding)


class Autocast(nn.Module):
    """A network of convolutions, channels last, under bfloat16 autocast."""

    def __init__(self) -> None:
        super().__init__()
        network = image(lambda: nn.GroupNorm(2, 8)).to(memory_format=torch.channels_last)
        self.network, self.stem = network, network.stem

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.network(x.contiguous(memory_format=torch.channels_last)).float()


def image(norm: Callable[[], nn.Module]) -> nn.Module:
    block = lambda: Residual(nn.Conv2d(8, 8, 3, padding=1), norm(), nn.ReLU())  # noqa: E731
    return Stacked(nn.Conv2d(3, 8, 3, stride=2, padding=1), block)


def tokens(layer: Callable[[], nn.Module]) -> nn.Module:
    return Stacked(nn.Linear(16, 16), layer)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "group norm": lambda: image(lambda: nn.GroupNorm(2, 8)),
    "batch norm": lambda: image(lambda: nn.BatchNorm2d(8)),
    "frozen batch norm": lambda: image(lambda: FrozenNorm(8)),
    "dropout": lambda: tokens(lambda: Residual(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.5))),
    "checkpoint": lambda: tokens(lambda: Checkpointed(nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.2))),
    "low rank": lambda: tokens(LowRank),
    "keys and values": lambda: tokens(KeysAndValues),
    "autocast": Autocast,
}


def steps(model: nn.Module, call: Any, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results, gradients and buffers; each step changes the parameters."""
    found = []
    model.eval()
    for x in given[:2]:
        with torch.no_grad():
            found.append(call(x))
    model.train()
    if any(isinstance(one, LowRank) for one in model.modules()):
        model.layers[0].merged = True  # one of the equal layers is another one from now on
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.05)
    for number, x in enumerate(given):
        torch.manual_seed(number)
        optimizer.zero_grad()
        result = call(x)
        result.square().mean().backward()
        found += [result.detach(), *[one.grad.clone() for one in model.parameters() if one.grad is not None]]
        optimizer.step()
    return [*found, *[one.clone() for one in model.buffers()]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (number > 0)) for number, name in enumerate(MODELS)]
)
def test_layers_with_kernels(name: str) -> None:
    torch.manual_seed(7)
    plain = MODELS[name]()
    model = copy.deepcopy(plain)
    given = [torch.randn((2, 3, 8, 8) if isinstance(plain.stem, nn.Conv2d) else (2, 4, 16)) for _ in range(3)]
    framelift.reset()
    compiled = framelift.compile(model, options={"fallback_random": True})
    wanted, made = steps(plain, plain, given), steps(model, compiled, given)
    within = 5e-2 if name == "autocast" else 2e-4
    for number, (a, b) in enumerate(zip(wanted, made, strict=True)):
        assert a.dtype == b.dtype and a.stride() == b.stride(), number
        torch.testing.assert_close(b, a, rtol=within, atol=within, msg=lambda text, number=number: f"{number}: {text}")
    assert not framelift.stats()["fallbacks"]

"""A deep decoder stack of plain torch modules: what a call costs when there are many parameters and little else."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["stack"]


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, width))


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = Norm(width), Norm(width)
        self.attention, self.perceptron = Attention(width, heads), Perceptron(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.perceptron(self.after(x))


class Stack(nn.Module):
    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = Norm(width)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def stack(layers: int = 82) -> tuple[nn.Module, dict[str, Any]]:
    """The stack in eval mode, and the keyword arguments of a call."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    return Stack(layers, 32, 4).eval(), {"input_ids": torch.randint(0, 100, (1, 16), generator=generator)}

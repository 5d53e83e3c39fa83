"""A small GPT trained on the characters of this file: framelift.compile for the training step and for evaluation.

python examples/train_gpt.py [--steps 40] [--backend inductor]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import framelift


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class GPT(nn.Module):
    def __init__(self, symbols: int, length: int, width: int = 32, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(
        self, index: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = self.symbols(index) + self.places(torch.arange(index.shape[1], device=index.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    torch.manual_seed(0)
    text = Path(__file__).read_text()
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    length = 32
    model = GPT(len(letters), length)
    compiled = framelift.compile(model, backend=options.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(data) - length - 1, (8,))
        return torch.stack([data[s : s + length] for s in starts]), torch.stack(
            [data[s + 1 : s + length + 1] for s in starts]
        )

    losses = []
    for step in range(options.steps):
        _, loss = compiled(*batch())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        losses.append(loss.item())
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                print(f"step {step + 1}: training {losses[-1]:.2f}, evaluation {compiled(*batch())[1]:.2f}")
            model.train()
    assert losses[-1] < losses[0]
    print(f"{framelift.stats()['captures']} captures")  # one for training, one for evaluation


if __name__ == "__main__":
    main()

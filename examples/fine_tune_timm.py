"""Fine-tune a vision model of timm on two classes of made-up pictures; only its head and its last block learn.

python examples/fine_tune_timm.py [--model resnet18] [--steps 20] [--backend inductor]

Needs timm (pip install timm); without it the program says so and ends.  Weights are random: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import importlib.util

import torch
from torch import nn

import framelift


def pictures(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise, brighter on the left (class 0) or on the right (class 1)."""
    labels = torch.randint(0, 2, (count,))
    images = torch.randn(count, 3, size, size)
    half = size // 2
    images[labels == 0, :, :, :half] += 1.5
    images[labels == 1, :, :, half:] += 1.5
    return images, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    if importlib.util.find_spec("timm") is None:
        print("timm is not installed (pip install timm): nothing to fine-tune")
        return
    import timm

    torch.manual_seed(0)
    model = timm.create_model(options.model, pretrained=False, num_classes=2)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    last_block = list(model.children())[-3:]  # the last stage, pooling, the head
    learned = [parameter.requires_grad_() for part in last_block for parameter in part.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=1e-3)

    compiled = framelift.compile(model, backend=options.backend)
    model.train()
    losses = []
    for _ in range(options.steps):
        images, labels = pictures(16, options.size)
        loss = nn.functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    print(f"loss {first:.3f} -> {last:.3f}")
    print(compiled._compiled)
    assert last < first and not compiled.report().breaks


if __name__ == "__main__":
    main()

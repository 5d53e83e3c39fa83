"""Serving: one compiled model, several threads, batches of every size.  One capture serves all sizes above one.

python examples/serve.py [--requests 40] [--backend inductor]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import framelift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
    compiled = framelift.compile(model, backend=options.backend)
    example = torch.rand(8, 16)
    framelift.mark_dynamic(example, 0)  # before the first request: no size is special
    with torch.no_grad():
        compiled(example)

    def answer(size: int) -> bool:
        batch = torch.rand(size, 16)
        with torch.no_grad():
            return torch.allclose(compiled(batch), model(batch), atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        right = list(pool.map(answer, [2 + i % 13 for i in range(options.requests)]))
    assert all(right)
    print(f"{len(right)} requests in 4 threads, {framelift.stats()['captures']} capture")


if __name__ == "__main__":
    main()

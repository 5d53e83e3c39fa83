"""Two ranks, DistributedDataParallel on the CPU (gloo): a compiled model is trained, and all ranks stay equal.

python examples/two_ranks.py [--steps 3] [--backend inductor]
"""

from __future__ import annotations

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import framelift


def train(rank: int, port: int, steps: int, backend: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)))
    compiled = framelift.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank + 1)  # each rank has data of its own
    for _ in range(steps):
        loss = compiled(torch.rand(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    total = torch.stack([parameter.detach().sum() for parameter in model.parameters()])
    gathered = [torch.empty_like(total) for _ in range(2)]
    dist.all_gather(gathered, total)
    assert torch.equal(*gathered)
    if rank == 0:
        print(f"{steps} steps on two ranks, equal weights")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, (port, options.steps, options.backend), nprocs=2)


if __name__ == "__main__":
    main()

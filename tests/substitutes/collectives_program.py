"""Programs with collectives, for one rank of several.

`python collectives_program.py RANK RANKS STORE BACKENDS` prints what differs from eager mode, or was not one graph, as
JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist

import framelift


def reduced(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def reduced_argument(x: torch.Tensor) -> Any:
    dist.all_reduce(x)
    return x * 2


def result_unused(x: torch.Tensor) -> Any:
    dist.all_reduce(x * 2)
    return x + 1


def gathered(x: torch.Tensor) -> Any:
    out = torch.empty(8)
    dist.all_gather_into_tensor(out, x)
    return out * 2


def scattered(x: torch.Tensor) -> Any:
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, x * 3)
    return out


def ranks(x: torch.Tensor) -> Any:
    return x * dist.get_rank() + dist.get_world_size()


def in_group(x: torch.Tensor, group: Any) -> Any:
    y = x + dist.get_rank(group)
    dist.all_reduce(y, group=group)
    return y


def main(rank: int, count: int, store: str, backends: list[str]) -> dict[str, str]:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    found = {}
    group = dist.new_group(list(range(count)))
    programs = [(one, ()) for one in (reduced, reduced_argument, result_unused, gathered, scattered, ranks)]
    for backend in backends:
        for program, more in [*programs, (in_group, (group,))]:
            before = framelift.stats()["graphs"]
            captured = framelift.compile(program, backend=backend, fullgraph=True)
            for step in range(2):
                plain, given = (torch.arange(4.0) + rank + step for _ in range(2))
                if not torch.equal(program(plain, *more), captured(given, *more)) or not torch.equal(plain, given):
                    found[f"{program.__name__} {backend}"] = "differs"
            if framelift.stats()["graphs"] != before + 1:
                found[f"{program.__name__} {backend}"] = "graphs"
    dist.barrier()
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4].split(","))))

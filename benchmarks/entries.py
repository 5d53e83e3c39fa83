"""Several entries of one callable: CPU time of a call when shapes take turns, each with an entry of its own; framelift
and TorchDynamo by turns.

    python benchmarks/entries.py [--calls 600] [--rounds 3] [--json]

The program is a stack of twelve decoder layers, captured once per length of its input (`dynamic=False`); the backend
answers with stored outputs.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import torch
from common import FRONT_ENDS, Row, cpu_seconds, median, print_rows, reset, stored_outputs
from stack import stack


def measure(entries: int, calls: int, rounds: int) -> Row:
    reset()
    inputs = [torch.zeros(1, 4 + i, dtype=torch.int64) for i in range(entries)]
    ready = {
        name: compile(stack(12)[0], backend=stored_outputs, dynamic=False) for name, (compile, _) in FRONT_ENDS.items()
    }

    def turns(compiled: Any) -> None:
        for i in range(calls):
            compiled(inputs[i % entries])

    seen: dict[str, list[float]] = {name: [] for name in FRONT_ENDS}
    with torch.no_grad():
        for compiled in [*ready.values()] * 2:
            turns(compiled)
        for _ in range(rounds):
            for name, compiled in ready.items():
                seen[name].append(cpu_seconds(functools.partial(turns, compiled)) / calls)
    return Row(f"{entries} entries", median(seen["framelift"]), median(seen["dynamo"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print_rows(
        "calls whose shapes take turns, CPU time",
        "us",
        1e6,
        [measure(n, options.calls, options.rounds) for n in (1, 2, 4, 8)],
        options.json,
    )


if __name__ == "__main__":
    main()

"""Call overhead: CPU time of a call whose backend answers with stored outputs; framelift and TorchDynamo by turns.

    python benchmarks/call.py [--calls 300] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from common import FRONT_ENDS, PROGRAMS, Program, Row, cpu_seconds, median, print_rows, reset, stored_outputs


def prepare(front_end: str, program: Program) -> tuple[Any, dict[str, Any]]:
    """A compiled callable that has been called often enough to be warm."""
    compile, _ = FRONT_ENDS[front_end]
    target, kwargs = program.make()
    compiled = compile(target, backend=stored_outputs)
    for _ in range(20):
        compiled(**kwargs)
    return compiled, kwargs


def seconds_per_call(compiled: Any, kwargs: dict[str, Any], calls: int) -> float:
    def many() -> None:
        for _ in range(calls):
            compiled(**kwargs)
    return cpu_seconds(many) / calls


def measure(program: Program, calls: int, rounds: int) -> Row:
    reset()
    with torch.no_grad():
        ready = {name: prepare(name, program) for name in FRONT_ENDS}
        seen: dict[str, list[float]] = {name: [] for name in FRONT_ENDS}
        for _ in range(rounds):
            for name, (compiled, kwargs) in ready.items():
                seen[name].append(seconds_per_call(compiled, kwargs, calls))
    return Row(program.name, median(seen["framelift"]), median(seen["dynamo"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(p, options.calls * (20 if "function" in p.name else 1), options.rounds) for p in PROGRAMS]
    print_rows("call overhead, CPU time", "us", 1e6, rows, options.json)


if __name__ == "__main__":
    main()

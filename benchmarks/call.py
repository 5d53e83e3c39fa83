"""Call overhead: CPU time of a call whose backend answers with stored outputs; framelift and TorchDynamo by turns.

    python benchmarks/call.py [--calls 300] [--rounds 3] [--only NAME] [--cold] [--json]

Two tables: hot, calls in a row; and, with --cold, cold: 64 MiB are written between one call and the next, so that
nothing is left in the processor's caches.  The last column is framelift's time above that of a function of three
tensors, per parameter and buffer of the model.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from common import FRONT_ENDS, PROGRAMS, Program, Row, cpu_seconds, median, print_rows, reset, stored_outputs

_WARM = 20
_COLD_CALLS = 12


def prepare(front_end: str, program: Program) -> tuple[Any, dict[str, Any]]:
    compile, _ = FRONT_ENDS[front_end]
    target, kwargs = program.make()
    return compile(target, backend=stored_outputs), kwargs


def seconds_per_call(compiled: Any, kwargs: dict[str, Any], calls: int) -> float:
    def many() -> None:
        for _ in range(calls):
            compiled(**kwargs)

    return cpu_seconds(many) / calls


def cold_seconds_per_call(compiled: Any, kwargs: dict[str, Any], calls: int) -> float:
    """The median over calls with 64 MiB written before each."""
    memory = torch.zeros(64 << 20, dtype=torch.uint8)
    seen = []
    for _ in range(calls):
        memory.add_(1)
        start = time.thread_time()
        compiled(**kwargs)
        seen.append(time.thread_time() - start)
    return median(seen)


def measure(program: Program, calls: int, rounds: int, cold: bool = False) -> Row:
    reset()
    with torch.no_grad():
        ready = {name: prepare(name, program) for name in FRONT_ENDS}
        for compiled, kwargs in [*ready.values()] * 2:  # the first capture of either may be noticed by the other
            for _ in range(_WARM):
                compiled(**kwargs)
        seen: dict[str, list[float]] = {name: [] for name in FRONT_ENDS}
        for _ in range(rounds):
            for name, (compiled, kwargs) in ready.items():
                one = (
                    cold_seconds_per_call(compiled, kwargs, _COLD_CALLS)
                    if cold
                    else seconds_per_call(compiled, kwargs, calls)
                )
                seen[name].append(one)
    return Row(program.name, median(seen["framelift"]), median(seen["dynamo"]))


def per_tensor(program: Program, row: Row, base: float) -> float | None:
    """framelift's seconds above `base` per parameter and buffer, or None for what has none."""
    model = program.make()[0]
    if not isinstance(model, torch.nn.Module):
        return None
    return (row.framelift - base) / sum(1 for tensors in (model.parameters(), model.buffers()) for _ in tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="a part of the program's name")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    programs = [p for p in PROGRAMS if "function" in p.name or not options.only or options.only in p.name]
    for cold in (False, True) if options.cold else (False,):
        rows = [measure(p, options.calls * (20 if "function" in p.name else 1), options.rounds, cold) for p in programs]
        base = next(row.framelift for row in rows if "function" in row.name)
        print_rows(f"call overhead, CPU time, {'cold' if cold else 'hot'} caches", "us", 1e6, rows, options.json)
        if not options.json:
            each = ((p.name, per_tensor(p, row, base)) for p, row in zip(programs, rows))
            print("ns per parameter: " + ", ".join(f"{name} {ns * 1e9:.0f}" for name, ns in each if ns is not None))


if __name__ == "__main__":
    main()

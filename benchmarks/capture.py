"""Capture time: the second capture in a warm process, backend eager, CPU seconds; framelift and TorchDynamo by turns.

    python benchmarks/capture.py [--rounds 3] [--json]

The first capture of each front end warms imports and caches and is not counted.  Each counted capture gets a fresh
model.
"""

from __future__ import annotations

import argparse

import torch
from common import FRONT_ENDS, PROGRAMS, Program, Row, cpu_seconds, median, print_rows, reset


def capture_once(front_end: str, program: Program) -> float:
    """CPU seconds of the first call of a freshly compiled callable, less one plain call."""
    compile, _ = FRONT_ENDS[front_end]
    reset()
    target, kwargs = program.make()
    with torch.no_grad():
        target(**kwargs)
        plain = cpu_seconds(lambda: target(**kwargs))
        compiled = compile(target, backend="eager")
        return max(cpu_seconds(lambda: compiled(**kwargs)) - plain, 1e-9)


def measure(program: Program, rounds: int) -> Row:
    """Median over `rounds`, the two front ends by turns, after one uncounted capture of each."""
    seen: dict[str, list[float]] = {name: [] for name in FRONT_ENDS}
    for number in range(rounds + 1):
        for name in FRONT_ENDS:
            seconds = capture_once(name, program)
            if number:
                seen[name].append(seconds)
    return Row(program.name, median(seen["framelift"]), median(seen["dynamo"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(program, options.rounds) for program in PROGRAMS]
    print_rows("capture, CPU time", "ms", 1e3, rows, options.json)


if __name__ == "__main__":
    main()

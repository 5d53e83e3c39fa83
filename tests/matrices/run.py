"""Runs the matrices: every cell, in worker processes that may crash or hang.

    python tests/matrices/run.py [--only read] [--match TEXT] [--sample 500 [--seed 3]] [--jobs 2]

A crash or a hang is a difference like any other, and the run goes on behind it.  Each difference is tried again in a
process of its own, so that one which only shows after other cells is reported as such.  The exit status is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
MATRICES = ("read", "silence", "fault", "kept")
PATIENCE = {"kept": 1200}  # seconds one cell may take: those that start processes take longer
USUAL_PATIENCE = 120
PER_WORKER = 1000  # cells after which a worker is replaced by a fresh one


def module_of(matrix: str) -> Any:
    """The module of a matrix; None if there is none."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    if not any((TESTS / "matrices" / name).exists() for name in (f"{matrix}.py", f"{matrix}/__init__.py")):
        return None
    return importlib.import_module(f"matrices.{matrix}")


def names_of(matrix: str, match: str, whole: bool) -> list[str]:
    """The names of a matrix's cells that hold the text.

    A large matrix may have a function `worth` that says which of them to run.
    """
    module = module_of(matrix)
    found = [cell.name for cell in module.cells() if match in cell.name] if module else []
    return found if whole or not hasattr(module, "worth") else module.worth(found)


@functools.cache
def cell_of(matrix: str, name: str) -> Any:
    """The cell of a name.  A large matrix may have a function `find`."""
    module = module_of(matrix)
    return module.find(name) if hasattr(module, "find") else {cell.name: cell for cell in module.cells()}[name]


def sampled(names: list[str], count: int, seed: int | None) -> list[str]:
    """About `count` of them: at equal distances over the list, or drawn where a seed is given."""
    if not count or count >= len(names):
        return names
    if seed is not None:
        return random.Random(seed).sample(names, count)
    return [names[i * len(names) // count] for i in range(count)]


def work() -> None:
    """The body of a worker: reads a cell's matrix and name from stdin, answers with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # cells may print
    for line in sys.stdin:
        matrix, name = json.loads(line)
        try:
            found = cell_of(matrix, name).run()
        except BaseException as error:  # noqa: BLE001  what escapes a cell is a difference
            found = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"
        print(json.dumps({"found": found}), file=answers, flush=True)


class Worker:
    """A process that runs cells, one at a time, and is replaced when it dies, hangs or has run many."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.done = 0

    def run(self, matrix: str, name: str) -> str | None:
        if self.process is None or self.done >= PER_WORKER:
            self.end()
            command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self.done = 0
        self.done += 1
        process = self.process
        assert process.stdin and process.stdout
        late: list[bool] = []
        patience = PATIENCE.get(matrix, USUAL_PATIENCE)
        timer = threading.Timer(patience, lambda: (late.append(True), process.kill()))
        timer.start()
        try:
            print(json.dumps([matrix, name]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if answer:
            return json.loads(answer)["found"]
        self.process = None
        return f"the process hung (for {patience} s)" if late else f"the process died (status {process.wait()})"

    def end(self) -> None:
        if self.process is not None and self.process.stdin:
            self.process.stdin.close()
            self.process.wait()
        self.process = None


def run_all(chosen: Iterable[tuple[str, str]], jobs: int) -> Iterable[tuple[str, str, str | None, float]]:
    """Each cell with its difference, or None, and its seconds, in the order in which they end."""
    rows: queue.Queue[tuple[str, str, str | None, float] | None] = queue.Queue()
    waiting = iter(list(chosen))
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker()
        while True:
            with lock:
                cell = next(waiting, None)
            if cell is None:
                break
            begin = time.monotonic()
            found = worker.run(*cell)
            if found is not None:
                alone = Worker()
                again = alone.run(*cell)
                alone.end()
                found = again if again is not None else f"(only after other cells) {found}"
            rows.put((*cell, found, time.monotonic() - begin))
        worker.end()
        rows.put(None)

    for _ in range(jobs):
        threading.Thread(target=serve, daemon=True).start()
    for _ in range(jobs):
        yield from iter(rows.get, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=MATRICES, action="append", help="a matrix; may be repeated")
    parser.add_argument("--match", default="", help="cells whose names hold this text")
    parser.add_argument("--sample", type=int, default=0, help="that many cells of each matrix")
    parser.add_argument("--seed", type=int, help="draw the sample; without it, cells at equal distances")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--whole", action="store_true", help="also cells that a matrix leaves out because they say little"
    )
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--slow", type=int, default=0, help="print that many of the slowest cells")
    options = parser.parse_args()
    os.environ.setdefault("FRAMELIFT_STRICT", "1")  # a defect of framelift is a difference
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begin, ran, different = time.time(), collections.Counter[str](), collections.Counter[str]()
    chosen: list[tuple[str, str]] = []
    for matrix in options.only or MATRICES:
        chosen += [
            (matrix, name)
            for name in sampled(names_of(matrix, options.match, options.whole), options.sample, options.seed)
        ]
    print(f"{len(chosen)} cells", flush=True)
    if options.list:
        print("\n".join(f"{matrix} {name}" for matrix, name in chosen))
        return 0
    times: list[tuple[float, str]] = []
    for matrix, name, found, seconds in run_all(chosen, options.jobs):
        ran[matrix] += 1
        times.append((seconds, name))
        if found is not None:
            different[matrix] += 1
            print(f"DIFFERS {matrix} {name}: {found}", flush=True)
    for seconds, name in sorted(times, reverse=True)[: options.slow]:
        print(f"{seconds:7.1f} s  {name}")
    for matrix in ran:
        print(f"{matrix}: {ran[matrix]} cells, {different[matrix]} differ")
    print(f"{ran.total()} cells, {different.total()} differ; {time.time() - begin:.0f} s")
    return 1 if different.total() or not ran.total() else 0


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work()
    else:
        sys.exit(main())

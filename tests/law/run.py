"""The big run: many seeds over several processes.

    python tests/law/run.py --programs 20000 --jobs 2

`--kind more`: more kinds of objects and state; `breaks`: with breaks; `facts`: all kinds of classes; `kept`: captured
in one process, run in another one with what the first kept on disk.

Prints each failing seed with its difference, and at the end how much of the programs was captured.  A program that
kills its process is a failure like any other; the run goes on with the next seed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
CHUNKS = range(50, 800)  # seeds per process: fewer towards the end, so that all jobs end together
PATIENCE = 300  # seconds one program may take
#: what is printed about a program
EMPTY: dict[str, Any] = {
    "kind": "",
    "failure": None,
    "graphs": 0,
    "captures": 0,
    "loaded": 0,
    "breaks": {},
    "not_kept": {},
}


def size_of(seed: int) -> int:
    """The size a seed's program has unless asked otherwise."""
    return 1 + seed % 8


def generator_of(kind: str) -> Callable[[int, int], Any]:
    """Seed and size -> program, for the name of a kind of programs."""
    from law.breaks import generate_breaks
    from law.facts import generate_facts
    from law.generate import generate
    from law.kept import generate_kept
    from law.more import generate_more

    return {
        "plain": generate,
        "more": generate_more,
        "breaks": generate_breaks,
        "facts": generate_facts,
        "kept": generate_kept,
        "write": generate_kept,
    }[kind]


def work(first: int, last: int, size: int, kind: str, backend: str) -> None:
    """The body of a worker: one line of JSON when a seed begins, one when it is judged."""
    sys.path.insert(0, str(TESTS))
    import torch

    import framelift
    from law.kept import altered, compile_kept, write
    from law.runner import judge

    torch.set_num_threads(1)
    generate = generator_of(kind)

    def outcome(program: Any) -> dict[str, Any]:
        if kind == "write":
            return {"not_kept": write(program, compile_kept(program, backend))}
        if kind == "kept":
            verdict = judge(altered(program), compile_kept(program, backend))
        else:
            verdict = judge(program, lambda function: framelift.compile(function, backend=backend))
        return {name: getattr(verdict, name) for name in ("failure", "graphs", "captures", "breaks", "loaded")}

    for seed in range(first, last):
        print(json.dumps({"begin": seed}), flush=True)
        row: dict[str, Any] = {**EMPTY, "seed": seed, "kind": kind}
        try:
            row.update(outcome(generate(seed, size or size_of(seed))))
        except BaseException as error:  # noqa: BLE001  what escapes both worlds is a failure of its own
            row["failure"] = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"
        print(json.dumps(row), flush=True)


def run_chunk(
    first: int,
    last: int,
    size: int,
    kind: str,
    backend: str,
    end_at: float,
    rows: queue.Queue[dict[str, Any]],
    environment: dict[str, str] | None = None,
) -> None:
    """Judge the seeds of a chunk in worker processes; a worker that dies is replaced after its last seed."""
    while first < last and time.time() < end_at:
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--worker",
            str(first),
            str(last),
            str(size),
            kind,
            backend,
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        begun = -1
        timer = killed_in_time(process, end_at)
        for line in process.stdout or ():
            row = json.loads(line)
            timer.cancel()
            timer = killed_in_time(process, end_at)
            begun = row.get("begin", begun)
            if "seed" in row:
                rows.put(row)
                first = row["seed"] + 1
                if time.time() >= end_at:
                    process.kill()
                    last = first
        timer.cancel()
        code = process.wait()
        if time.time() >= end_at:
            return
        if begun < 0:
            rows.put({**EMPTY, "seed": first, "failure": "no worker can begin: try --worker by hand"})
            return
        if first < last:
            rows.put({**EMPTY, "seed": begun, "failure": f"the process died or hung (status {code})"})
            first = begun + 1


def killed_in_time(process: subprocess.Popen[str], end_at: float) -> threading.Timer:
    """A timer that kills a worker whose program takes too long, or is not done soon after the end of the run."""
    timer = threading.Timer(min(PATIENCE, max(0, end_at - time.time()) + 5), process.kill)
    timer.daemon = True
    timer.start()
    return timer


def run_kept(first: int, last: int, size: int, backend: str, end_at: float, rows: queue.Queue[dict[str, Any]]) -> None:
    """One process after the other for a chunk, with one folder of kept captures."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": folder}
        for kind in ("write", "kept"):
            run_chunk(first, last, size, kind, backend, end_at, rows, environment)


def shares(first: int, last: int, jobs: int) -> list[tuple[int, int]]:
    """Cut seeds into chunks, each half of a job's share of what is left."""
    found = []
    while first < last:
        end = min(first + min(max((last - first) // (2 * jobs), CHUNKS.start), CHUNKS.stop), last)
        found.append((first, end))
        first = end
    return found


def run_all(
    first: int, programs: int, size: int, jobs: int, kind: str, backend: str, end_at: float
) -> queue.Queue[dict[str, Any] | None]:
    """Start `jobs` threads that share the seeds, and begin no more of them after `end_at`; the queue ends with one
    None per thread."""
    rows: queue.Queue[dict[str, Any] | None] = queue.Queue()
    chunks = iter(shares(first, first + programs, jobs))
    lock = threading.Lock()

    def serve() -> None:
        while time.time() < end_at:
            with lock:
                chunk = next(chunks, None)
            if chunk is None:
                break
            if kind == "kept":
                run_kept(*chunk, size, backend, end_at, rows)
            else:
                run_chunk(*chunk, size, kind, backend, end_at, rows)
        rows.put(None)

    for _ in range(jobs):
        threading.Thread(target=serve, daemon=True).start()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", "--seed", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--size", type=int, default=0, help="0: from 1 to 8, by seed")
    parser.add_argument("--kind", choices=("plain", "more", "breaks", "facts", "kept"), default="plain")
    parser.add_argument("--breaks", action="store_const", dest="kind", const="breaks", help="as --kind breaks")
    parser.add_argument(
        "--backend", default="eager", help="aot_eager drops draws that nobody uses, so that random states differ there"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after this time")
    options = parser.parse_args()
    os.environ.setdefault("FRAMELIFT_STRICT", "1")  # a defect of framelift is a failure
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begin, finished, failed = time.time(), 0, 0
    sums: collections.Counter[str] = collections.Counter()
    breaks: collections.Counter[str] = collections.Counter()
    not_kept: collections.Counter[str] = collections.Counter()
    rows = run_all(
        options.first,
        options.programs,
        options.size,
        options.jobs,
        options.kind,
        options.backend,
        begin + 60 * options.minutes,
    )
    while finished < options.jobs:
        row = rows.get()
        if row is None:
            finished += 1
            continue
        sums.update(
            programs=int(row["kind"] != "write"),
            graphs=row["graphs"],
            captures=row["captures"],
            loaded=row["loaded"],
            whole=int(bool(row["graphs"]) and not sum(row["breaks"].values())),
        )
        breaks.update(row["breaks"])
        not_kept.update(row["not_kept"])
        if row["failure"]:
            failed += 1
            print(f"seed {row['seed']} size {options.size or size_of(row['seed'])}: {row['failure']}", flush=True)
    print(
        f"{sums['programs']} programs, {failed} wrong; {sums['captures']} captures, {sums['loaded']} loaded, "
        f"{sums['graphs']} graphs, {sums['whole']} programs captured without a break; {time.time() - begin:.0f} s"
    )
    for reason, n in breaks.most_common(20):
        print(f"  {n:6} {reason}")
    for reason, n in not_kept.most_common(20):
        print(f"  {n:6} captures are not kept: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work(*map(int, sys.argv[2:5]), *sys.argv[5:7])
    else:
        sys.exit(main())

"""Processes that are killed while they write captures: the folder stays usable.

    python tests/cache/killed.py --kills 1000

Four processes write all the time, to a few keys; one after the other is killed at a random moment and replaced.
Afterwards every file that is found is whole, another process can write and read, and nothing but captures, the key and
temporary files of the dead is left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import framelift
from framelift.cache import store

__all__ = ["run"]

KEYS = [f"{number:02x}" * 20 for number in range(5)]
PROCESSES = 4


def _write_forever(seed: int, done: int) -> None:
    """The body of a process; `done` gets a byte for each write."""
    rng = random.Random(seed)
    while True:
        number = rng.randrange(10**9)
        data = {"number": number, "text": "x" * rng.choice((10, 1000, 100_000)), "again": number}
        if store.write(rng.choice(KEYS), data):
            os.write(done, b"w")


def _start(seed: int, done: int) -> int:
    process = os.fork()
    if process == 0:
        try:
            _write_forever(seed, done)
        finally:
            os._exit(1)
    return process


def run(kills: int, seed: int = 0) -> int:
    """Kill so many writers; how many writes there were."""
    rng = random.Random(seed)
    reading, done = os.pipe()
    processes = [_start(number, done) for number in range(PROCESSES)]
    killed = written = 0
    try:
        while killed < kills:
            time.sleep(rng.random() * 0.002)
            victim = rng.randrange(PROCESSES)
            os.kill(processes[victim], signal.SIGKILL)
            os.waitpid(processes[victim], 0)
            killed += 1
            processes[victim] = _start(seed + killed + PROCESSES, done)
            os.set_blocking(reading, False)
            try:
                written += len(os.read(reading, 1 << 16))
            except BlockingIOError:
                pass
            if killed % 20 == 0:
                check(killed)
    finally:
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.close(reading)
        os.close(done)
    check(killed)
    return written


def check(number: int) -> None:
    """What is found is whole; and one more process writes and reads."""
    for key in KEYS:
        for _, data in store.records(key):
            assert data["number"] == data["again"]
    mine = "ff" * 20
    assert store.write(mine, {"number": number, "again": number})
    assert any(data["number"] == number for _, data in store.records(mine))
    names = {path.suffix for path in Path(store.folder()).rglob("*") if path.is_file()}
    assert names <= {".capture", ".part", ""}, names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, framelift.config.patch(cache=True, cache_dir=folder):
        written = run(options.kills)
        left = sum(path.suffix == ".part" for path in Path(folder).rglob("*"))
    print(f"{options.kills} processes killed, {written} writes, {left} temporary files left")
    return 0


if __name__ == "__main__":
    sys.exit(main())

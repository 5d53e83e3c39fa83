"""Runs the test files over several processes: `make test TEST_JOBS=8`.

One pytest per file, the largest first; what failed is printed at the end.  Only the standard library is used here.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
NO_TESTS = 5   # pytest's exit status


def run(file: Path, arguments: list[str]) -> tuple[Path, int, str, float]:
    """One file: (file, exit status, output, seconds)."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", str(file), "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=TESTS.parent)
    return file, done.returncode, done.stdout, time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options, arguments = parser.parse_known_args()
    files = sorted(TESTS.glob("test_*.py"), key=lambda file: -file.stat().st_size)
    counts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for file, status, output, seconds in pool.map(lambda file: run(file, arguments), files):
            last = output.strip().splitlines()[-1] if output.strip() else ""
            print(f"{file.name:36s} {seconds:6.1f} s  {last.strip('= ')}", flush=True)
            for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected)", last):
                counts[word] += int(number)
            if status not in (0, NO_TESTS):
                bad.append(f"==== {file.name}: exit status {status}\n{output[-6000:]}")
    print("\n".join(bad))
    print(", ".join(f"{number} {word}" for word, number in counts.items()) + f"; {len(bad)} of {len(files)} files failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

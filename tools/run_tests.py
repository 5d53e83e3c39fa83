"""Runs the tests over several processes: `make test`, or `make test TEST_JOBS=8`.

Of a product of parameters it runs so many combinations that each pair of values is in one, and no test marked `slow`;
`--whole` (`make nightly`) runs all.  `--part 1/10` runs a tenth of the tests, spread over all files by a hash of each
test's id (tests/conftest.py has both).  Further arguments go to pytest.

A pytest runs a batch of files.  Batches become smaller towards the end, so that all processes end together and few of
them load torch.  What failed is printed at the end.  Only the standard library is used here.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
NO_TESTS = 5  # pytest's exit status
LARGEST, SMALLEST = 60, 8  # files of a batch
_SUMMARY = re.compile(r"\d+ \w+.* in \d+\.\d+s")  # what libraries print at exit may stand behind it


def batches(jobs: int) -> list[list[Path]]:
    """The test files in batches: each takes a part of what is left, and files of all sizes, the largest first."""
    files = sorted(TESTS.rglob("test_*.py"), key=lambda file: -file.stat().st_size)
    found = []
    while files:
        count = min(max(len(files) // (2 * jobs), SMALLEST), LARGEST, len(files))
        found.append(files[:: len(files) // count][:count])
        files = [file for file in files if file not in found[-1]]
    return found


def run(files: list[Path], arguments: list[str]) -> tuple[list[Path], int, str, float]:
    """One batch: (files, exit status, output, seconds)."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", *map(str, files), "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=TESTS.parent)
    return files, done.returncode, done.stdout, time.monotonic() - start


def cpu_seconds() -> float:
    """The CPU time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", help="one part of the tests: 1/10, 2/10, ...")
    parser.add_argument("--whole", action="store_true", help="slow tests too, and each combination of parameters")
    options, arguments = parser.parse_known_args()
    if options.part:
        arguments += ["--part", options.part]
    if options.whole:
        arguments += ["--whole"]
    start = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(run, files, arguments) for files in batches(options.jobs)]
        for done in as_completed(running):
            files, status, output, seconds = done.result()
            last = next((line for line in reversed(output.splitlines()) if _SUMMARY.search(line)), "no summary")
            print(f"{len(files):3d} files, {seconds:6.1f} s  {last.strip('= ')}", flush=True)
            for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected)", last):
                counts[word] += int(number)
            if status not in (0, NO_TESTS):
                names = " ".join(str(file.relative_to(TESTS)) for file in files)
                print(*re.findall(r"^(?:FAILED|ERROR) .*", output, re.MULTILINE), sep="\n", flush=True)
                bad.append(f"==== exit status {status}: {names}\n{output[-12000:]}")
    print("\n".join(bad))
    print(
        ", ".join(f"{number} {word}" for word, number in counts.items())
        + f" in {time.monotonic() - start:.0f} s, {cpu_seconds():.0f} s of CPU; "
        f"{len(bad)} of {len(running)} batches failed"
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

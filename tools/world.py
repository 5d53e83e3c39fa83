"""Runs the tests, or a part of them, over every pair of Python and torch that is installed, and prints a table.

python tools/world.py [--part 1/10] [--jobs N] [ENVIRONMENT ...]

An environment is a folder with bin/python; without any, .venv and those in build/envs (`make test PYTHON= TORCH=` makes
them).  The core is built in place for each, one environment after the other.  Only the standard library is used here.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PAIR = "import platform, torch; print(platform.python_version(), torch.__version__.partition('+')[0])"


def environments() -> list[Path]:
    """The environments of this folder."""
    return [path for path in (ROOT / ".venv", *sorted((ROOT / "build" / "envs").glob("*"))) if (path / "bin").exists()]


def tests_in(environment: Path, part: str, jobs: int) -> tuple[str, bool]:
    """The table's row of one environment; False where something failed."""
    python = str(environment / "bin" / "python")
    pair = subprocess.run([python, "-c", _PAIR], capture_output=True, text=True)
    if pair.returncode:
        return f"| | {environment} has no usable torch | | |", False
    here = " | ".join(pair.stdout.split())
    print(f"== {here}", flush=True)
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    build = subprocess.run([python, "setup.py", "-q", "build_ext", "--inplace"], cwd=ROOT, env=settings)
    if build.returncode:
        return f"| {here} | the core could not be built | |", False
    command = [python, "tools/run_tests.py", "--jobs", str(jobs), *(["--part", part] if part else [])]
    with subprocess.Popen(command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line
    counts = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", last)
    return f"| {here} | {', '.join(counts)} | {datetime.date.today()}, {commit()} |", not running.returncode


def commit() -> str:
    """The commit of this folder, as far as git knows it."""
    said = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() or "no commit"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/10", help='one part of the tests; "" for all (default: %(default)s)')
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("environments", nargs="*", type=Path)
    options = parser.parse_args()
    rows = [tests_in(one.absolute(), options.part, options.jobs) for one in options.environments or environments()]
    tests = f"tests, part {options.part}" if options.part else "tests"
    print(f"\n| CPython | torch | {tests} | date, commit |", "|---|---|---|---|", *(row for row, _ in rows), sep="\n")
    return 0 if all(good for _, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

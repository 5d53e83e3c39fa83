"""The big run: many seeds over several processes.

    python tests/law/run.py --programs 20000 --jobs 2

Prints each failing seed with its difference, and at the end how much of the programs was captured.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")


def _seed(task: tuple[int, int]) -> tuple[int, int, str | None, int, int, dict[str, int]]:
    from law.generate import generate
    from law.runner import judge

    import torch
    torch.set_num_threads(1)
    seed, size = task
    try:
        verdict = judge(generate(seed, size))
    except BaseException as error:  # noqa: BLE001  what escapes both worlds is a failure of its own
        return seed, size, f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}", 0, 0, {}
    return seed, size, verdict.failure, verdict.graphs, verdict.captures, verdict.breaks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--size", type=int, default=0, help="0: from 1 to 8, by seed")
    options = parser.parse_args()
    tasks = [(s, options.size or 1 + s % 8) for s in range(options.first, options.first + options.programs)]
    start, failed, graphs, captures, whole = time.time(), 0, 0, 0, 0
    breaks: collections.Counter[str] = collections.Counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, maxtasksperchild=500) as pool:
        for seed, size, failure, g, c, b in pool.imap_unordered(_seed, tasks, chunksize=8):
            graphs, captures, whole = graphs + g, captures + c, whole + (not sum(b.values()))
            breaks.update(b)
            if failure:
                failed += 1
                print(f"seed {seed} size {size}: {failure}", flush=True)
    print(f"{len(tasks)} programs, {failed} wrong; {captures} captures, {graphs} graphs, {whole} programs without a break; "
          f"{time.time() - start:.0f} s")
    for reason, n in breaks.most_common(20):
        print(f"  {n:6} {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

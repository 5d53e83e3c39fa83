"""Nothing stays of programs that are over: in a process of its own, law programs are captured, forgotten and counted.

What the first round leaves is caches of Python and torch (classes that were asked about, operators that were made); a
second round of the same programs must add nothing to them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_COUNT = """
import collections, gc, json, sys
sys.path.insert(0, sys.argv[1])
import torch
import framelift
from law.run import generator_of
from law.runner import judge

torch.set_num_threads(1)
programs = [generator_of("breaks")(seed, 4) for seed in json.loads(sys.argv[2])]

def after(rounds):
    for _ in range(rounds):
        for program in programs:
            assert judge(program).failure is None, program.seed
    framelift.reset()
    for _ in range(3):
        gc.collect()
    return collections.Counter(f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.get_objects())

gc.freeze()  # collections leave out torch
after(2)
before = after(1)
rounds = int(sys.argv[3])
now = after(rounds)
print(json.dumps({kind: now[kind] - before[kind] for kind in now if now[kind] > before[kind]}))
"""

#: of all types together: a counter more, a cache of Python's
_FEW = 8


@pytest.mark.parametrize("seeds, rounds", (([700103], 8), (list(range(700200, 700206)), 1)), ids=("one", "several"))
def test_programs_leave_nothing_behind(seeds: list[int], rounds: int) -> None:
    command = [sys.executable, "-c", _COUNT, str(Path(__file__).parents[1]), json.dumps(seeds), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    grown = json.loads(done.stdout.splitlines()[-1])
    assert sum(grown.values()) <= _FEW, grown
    assert not any(kind.startswith(("framelift.", "torch.", "law_world.")) for kind in grown), grown

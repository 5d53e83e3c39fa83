"""Framelift's evaluator is off while framelift's own code runs, unless a frame may begin that only it can see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "resting_evaluator.py"


def test_when_the_evaluator_rests() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.split()) == 5


ENDING = """
import sys, threading, time, torch, framelift

def waits():
    while True:
        time.sleep(0.01)

def program(x):
    y = x + 1
    framelift.graph_break()
    threading.Thread(target=waits, daemon=True).start()
    return y * 2

framelift.compile(program, backend="eager")(torch.ones(2))

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)

sys.slow = Slow()
"""


def test_a_thread_that_outlives_python_does_not_end_the_process() -> None:
    """CPython ends it where it asks for the GIL, by unwinding its frames, the evaluator's among them."""
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr

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

"""An allocation of the core fails.

MemoryError or the right result, no crash, nothing left behind, and the next call works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that makes C++ allocations of the core fail."""
    if shutil.which("g++") is None or "LD_PRELOAD" in os.environ:
        pytest.skip("needs g++, and a process that preloads nothing else")
    library = tmp_path_factory.mktemp("native") / "fail_new.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-o", library, HERE / "native" / "fail_new.cpp"], check=True)
    return str(library)


STEPS = {"plain": 3, "objects": 5, "broken": 13, "generators": 5, "failing": 7, "module": 11}
OTHER_STEPS = {"plain": 7, "objects": 13, "broken": 31, "generators": 13, "failing": 17, "module": 29}


@pytest.mark.parametrize(
    "program,step", [*OTHER_STEPS.items(), *(pytest.param(*row, marks=pytest.mark.slow) for row in STEPS.items())]
)
def test_failing_allocations(preloaded: str, program: str, step: int) -> None:
    """Every `step`-th allocation of a capture and its call; failing_memory.py runs them all."""
    environment = {**os.environ, "LD_PRELOAD": preloaded, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(HERE / "failing_memory.py"), program, "1", str(step)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    (line,) = done.stdout.splitlines()
    if sys.version_info >= (3, 12) and int(line.split()[1]) == 0:
        pytest.skip("with this CPython the core does not ask the preloaded library for memory, so nothing can fail")
    assert int(line.split()[1]) > 10, line

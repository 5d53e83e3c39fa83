"""The fault matrix in small: each fault at some points, each point with some fault.  `make matrices` runs all cells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import framelift

from matrices import fault
from matrices.fault.faults import FAULTS
from matrices.fault.points import POINTS


def chosen() -> list[str]:
    """For every third point the next fault, and an exception of the program wherever its own code runs."""
    found = [f"{point.name}/{FAULTS[number % len(FAULTS)].name}" for number, point in list(enumerate(POINTS))[::3]]
    names = [cell.name for cell in fault.cells()]
    return [name for name in names if name in found or name.endswith("/exception")]


@pytest.mark.parametrize("name", chosen())
def test_a_cell_of_the_fault_matrix(name: str) -> None:
    if framelift.config.verify_guards and name.endswith("/thread"):
        pytest.skip("the other thread may change what guards read before they are verified")
    found = fault.find(name).run()
    assert found is None, found


def test_every_fault_is_among_them() -> None:
    assert {name.rpartition("/")[2] for name in chosen()} == {one.name for one in FAULTS}


def test_threads_under_stress() -> None:
    """Some seconds of stress_threads.py, which runs for as long as it is told."""
    command = [sys.executable, str(Path(__file__).parent / "stress_threads.py"), "--seconds", "5", "--threads", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]

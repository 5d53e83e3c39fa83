"""Every program in examples/ runs, with the eager backend: each checks its own results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "train_gpt": ["--steps", "20", "--backend", "eager"],
    "generate": ["--tokens", "8", "--backend", "eager"],
    "serve": ["--backend", "eager"],
    "export_model": [],
    "two_ranks": ["--backend", "eager"],
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_example(name: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FRAMELIFT_STRICT": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *OPTIONS[name]],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]

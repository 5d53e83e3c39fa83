"""Collectives in captured functions: one graph each, equal to eager mode on two ranks of gloo."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest


def agree(backends: str, store: pathlib.Path) -> None:
    script = str(pathlib.Path(__file__).with_name("collectives_program.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), "2", str(store), backends], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            assert json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) == {}
    finally:
        for process in processes:
            process.kill()


def test_two_ranks(tmp_path: pathlib.Path) -> None:
    agree("eager,aot_eager", tmp_path / "store")


@pytest.mark.slow
def test_two_ranks_with_inductor(tmp_path: pathlib.Path) -> None:
    agree("inductor", tmp_path / "store")

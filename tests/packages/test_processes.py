"""Packages of one process in a fresh one that has empty caches, no C++ compiler, and cannot rehearse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("programs.py")


def run(what: str, folder: Path, **environment: str) -> dict[str, Any]:
    inside = {**os.environ, "FRAMELIFT_CACHE_DIR": str(folder / "keys"), **environment}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), what, str(folder)], stdout=subprocess.PIPE, text=True, env=inside, timeout=300
    )
    assert done.returncode == 0
    return json.loads(done.stdout.splitlines()[-1])


def test_a_fresh_process_neither_rehearses_nor_compiles(tmp_path: Path) -> None:
    assert run("save", tmp_path)["captures"] == 2
    found = run("load", tmp_path, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), CXX="/bin/false")
    assert found["function"] and found["nested"]
    assert found["rehearsed"] == 0 and found["loaded"] == 2
    assert found["error"].startswith("GuardManager check failed, reason: power is now 3, was 5")

"""Captures kept on disk: two processes that write at the same time, and those that come after them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("kept_program.py")


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True, env=environment)


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    found = json.loads(output)
    for eager, compiled in found["rows"]:
        assert eager == compiled
    return {name: found[name] for name in ("captures", "loaded", "not_kept")}


def test_later_processes_rehearse_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for process in [start(folder), start(folder)]:
        assert outcome(process)["not_kept"] == {}
    last = outcome(start(folder))
    assert last["captures"] == 0 and last["not_kept"] == {} and last["loaded"] > 4
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {"", ".capture", ".symbolic", ".note"}  # nothing is left behind
    assert [stat.S_IMODE(path.stat().st_mode) for path in files if path.name == "key"] == [0o600]

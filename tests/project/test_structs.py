"""What the core believes of CPython's structs, with every supported CPython of this machine; no torch is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import framelift
from framelift.surface.core_build import compiler
from other_pythons import OTHERS, interpreter

HERE = Path(__file__).parent
CSRC = HERE.parents[1] / "csrc"
SOURCES = [HERE / "layouts_alone.cpp", CSRC / "layouts.cpp", CSRC / "guard_watches.cpp"]


@pytest.mark.parametrize("version", [sys.version_info[:2], *OTHERS])
def test_structs_are_as_the_core_believes(version: tuple[int, int], tmp_path: Path) -> None:
    python = sys.executable if version == sys.version_info[:2] else interpreter(version)
    found = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True)
    if not Path(found.strip(), "Python.h").exists():
        pytest.skip(f"{python} has no headers")
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-w", f"-I{found.strip()}", f"-I{CSRC}"]
    subprocess.run([*compiler(), *flags, *SOURCES, "-o", tmp_path / "layouts_alone.so"], check=True)
    program = "import json, layouts_alone; print(json.dumps(layouts_alone.LAYOUTS))"
    done = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [what for what, _, holds in rows if not holds] == []
    known = [[what, file] for what, file, _ in framelift._core.LAYOUTS]
    assert len(rows) > 10 and all(row[:2] in known for row in rows)

"""CPythons beside the running one: what needs no torch is tested with them where they are installed."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys

import pytest

from framelift.bytecode.dialects import VERSIONS

OTHERS = [version for version in VERSIONS if version != sys.version_info[:2]]


def interpreter(version: tuple[int, int]) -> str:
    """The path of a CPython of this version; the test is skipped where there is none."""
    dotted = ".".join(map(str, version))
    candidates = [
        *glob.glob(os.path.expanduser(f"~/.pyenv/versions/{dotted}.*/bin/python")),
        shutil.which(f"python{dotted}"),
    ]
    for path in candidates:
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"no CPython {dotted} here")

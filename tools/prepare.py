"""Finds or makes the Python environment that `make` works in, and writes its interpreter's path to build/python.

With the network (or a local index): .venv with torch and what the tests need; another Python than .venv's, or a torch
that is asked for (`--torch 2.14.1`), has an environment of its own in build/envs.  Without the network: the Python that
runs this script, if it has a usable torch.  `--system` asks for the latter at once.  Only the standard library is used
here.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
ENVIRONMENTS = ROOT / "build" / "envs"
MARK = ROOT / "build" / "python"
TORCH = os.environ.get("TORCH_SPEC", "torch==2.13.0")
TEST = [
    "pytest",
    "hypothesis",
    "numpy",
    "transformers==5.22.2",
    "rich",
    "attrs",
    "pydantic",
    "mypy==2.4.1",
    "ruff==0.17.4",
    "nbclient",
    "nbformat",
    "ipykernel",
]
BUILD = ["setuptools>=77", "wheel"]
MINIMUM_TORCH = (2, 11)


def say(sentence: str) -> None:
    print(f"framelift: {sentence}", flush=True)


def stop(sentence: str) -> None:
    sys.exit(f"framelift: {sentence}")


def usable_torch(python: str) -> bool:
    """Does this interpreter have a torch that is new enough."""
    done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if done.returncode:
        return False
    version = done.stdout.strip().split("+")[0].split(".")
    return tuple(int(x) for x in version[:2]) >= MINIMUM_TORCH


def missing(python: str) -> list[str]:
    """Names the tests import that this interpreter does not have."""
    names = ["pytest", "hypothesis", "numpy", "transformers", "rich", "mypy", "ruff", "setuptools"]
    text = f"import importlib.util as u; print(' '.join(n for n in {names!r} if u.find_spec(n) is None))"
    return subprocess.run([python, "-c", text], capture_output=True, text=True).stdout.split()


def environment_for(torch: str) -> Path:
    """The folder of the environment for this Python and the torch that is asked for ("": none)."""
    if torch:
        return ENVIRONMENTS / f"cp{sys.version_info.major}{sys.version_info.minor}-torch-{torch}"
    settings = VENV / "pyvenv.cfg"
    if not settings.exists() or f"version = {sys.version_info.major}.{sys.version_info.minor}." in settings.read_text():
        return VENV
    return environment_for(TORCH.rpartition("=")[2])


def make_environment(folder: Path, torch: str) -> bool:
    """Create an environment and install into it; False when the packages cannot be had."""
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"creating {folder.relative_to(ROOT)} with {sys.executable}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for wanted in (BUILD, [torch], TEST):
        say(f"installing {' '.join(wanted)}")
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--retries",
            "1",
            *wanted,
        ]
        if subprocess.run(command).returncode:
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", action="store_true", help="use this very Python, install nothing")
    parser.add_argument("--torch", default="", help="the version of torch, in an environment of its own")
    options = parser.parse_args()
    reason = runpy.run_path(str(ROOT / "src" / "framelift" / "surface" / "native_core.py"))["unsupported"]()
    if reason is not None:
        stop(f"{reason} (PYTHON=...).")
    if shutil.which((os.environ.get("CXX") or "g++").split()[0]) is None:
        stop("no C++ compiler found; install g++ or set CXX to one.")
    MARK.parent.mkdir(exist_ok=True)
    before = MARK.read_text().strip() if MARK.exists() else ""
    if before == sys.executable and options.system:
        return
    torch = f"torch=={options.torch}" if options.torch else TORCH
    wanted = hashlib.sha256(repr((sys.executable, torch, TEST, BUILD)).encode()).hexdigest()[:16]
    folder = environment_for(options.torch)
    stamp, chosen = folder / f"ready-{wanted}", folder / "bin" / "python"
    if not options.system and (stamp.exists() or make_environment(folder, torch)):
        stamp.touch()
    elif usable_torch(sys.executable):
        say(f"using {sys.executable} as it is" + ("" if options.system else ", since packages cannot be installed"))
        chosen = Path(sys.executable)
        lacking = missing(sys.executable)
        if lacking:
            say(
                f"not installed there: {' '.join(lacking)}; tests and demo parts that need them will fail "
                f"or be left out."
            )
    else:
        stop(f"no torch to work with: {torch} could not be installed, and {sys.executable} has no torch 2.11 or newer.")
    if before != str(chosen):
        MARK.write_text(f"{chosen}\n")


if __name__ == "__main__":
    main()

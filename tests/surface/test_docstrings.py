"""Every public name has an example in its docstring, and every example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

import framelift

_FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
#: names whose meaning is a value, documented with what holds them
_VALUES = {"counters"}


def modules() -> list[str]:
    """The modules whose text holds an example."""
    root = Path(framelift.__file__).parent
    found = [path.relative_to(root.parent).with_suffix("") for path in root.rglob("*.py") if ">>>" in path.read_text()]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in found)


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    for test in finder.find(module, name):
        if test.examples:
            framelift.reset()
            assert runner.run(test).failed == 0, test.name


@pytest.mark.parametrize("name", sorted(set(framelift.__all__) - _VALUES))
def test_every_public_name_has_an_example(name: str) -> None:
    value = getattr(framelift, name)
    if isinstance(value, types.ModuleType):
        assert value.__doc__
    elif inspect.isclass(value) or callable(value):
        assert ">>>" in (value.__doc__ or ""), name


@pytest.mark.parametrize("module", ["testing"])
def test_names_of_public_modules_have_examples(module: str) -> None:
    found = getattr(framelift, module)
    assert not [name for name in found.__all__ if ">>>" not in (getattr(found, name).__doc__ or "")]


def test_values_and_errors_have_examples_in_the_documentation() -> None:
    """What has no docstring of its own to run is used by a page, whose programs run."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    assert all(f"framelift.{name}" in (docs / "howto" / "debug.md").read_text() for name in _VALUES)
    errors = (docs / "howto" / "errors.md").read_text()
    assert not [name for name in framelift.exc.__all__ if f"`{name}`" not in errors]


def test_the_demo_runs() -> None:
    """In a process of its own, as `make demo` does, for the smallest of its programs."""
    demo = Path(__file__).resolve().parents[2] / "demo" / "demo.py"
    done = subprocess.run([sys.executable, str(demo), "--only", "function"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "bit for bit" in done.stdout and "entry:" in done.stdout

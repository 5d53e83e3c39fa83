"""The documentation: every program in it runs, every reason has a current page, reference pages can be made.

A block marked ```python is a program: the blocks of a page run in order, in one namespace.  ```py marks a quotation of
framelift's own source.
"""

from __future__ import annotations

import doctest
import importlib.util
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import framelift
from framelift.report.reason_page import EXAMPLES
from framelift.vocabulary.reasons import REASONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reasons")]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
#: what a page's programs find defined
GIVEN: dict[str, dict[str, object]] = {}


def blocks(path: Path) -> list[tuple[int, str]]:
    """(line, program) of every block of a page."""
    text = path.read_text()
    return [(text[: found.start()].count("\n") + 2, found[1]) for found in _BLOCK.finditer(text)]


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path)], ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_run(path: Path, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", module := types.ModuleType("__main__"))
    module.__dict__.update(GIVEN.get(path.name, {}))
    for line, program in blocks(path):
        if program.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(
                program, {"torch": torch, "framelift": framelift}, path.name, str(path), line
            )
            assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
            continue
        name = tmp_path / f"{path.stem}_{line}.py"  # a real file: messages show lines of it
        name.write_text(
            program.replace('backend="inductor"', 'backend="eager"') if path.name == "README.md" else program
        )
        exec(compile(name.read_text(), str(name), "exec"), module.__dict__)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or torch.__version__.split("+")[0] != "2.13.0",
    reason="the page is made with CPython 3.11 and torch 2.13; others show other lines of theirs",
)
def test_messages_are_current() -> None:
    """docs/messages.md: every program there is run, in a process of its own."""
    command = [sys.executable, str(ROOT / "tools" / "messages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"run python tools/messages.py\n{done.stdout}{done.stderr}"


def test_the_comments_of_the_first_example_are_true(tmp_path) -> None:
    """README: what its comments say of recompiles and counts."""
    ((_, program),) = blocks(ROOT / "README.md")
    path = tmp_path / "first.py"
    path.write_text(program.replace('backend="inductor"', 'backend="eager"'))
    framelift.reset()
    step = runpy.run_path(str(path))["step"]
    (found,) = step.recompiles()
    assert found.sentence.startswith("scale is now 5, was 3 (") and "# scale is now 5, was 3: a recompile" in program
    assert found.done == "scale is symbolic from now on" and "in which it is symbolic" in program
    shown = re.search(r"print\(step\) +# (.*)", program)[1]
    assert shown.split(", ")[1:] == ["3 calls served", "no breaks", "1 recompile"]
    assert not [part for part in shown.split(", ") if part not in str(step)]


sys.path.append(str(ROOT / "tools"))  # they import each other


def load(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_reason_has_a_current_page() -> None:
    wanted = load("reason_pages").pages()
    stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    assert not stale, f"run make reasons: {stale}"
    assert {path.stem for path in (ROOT / "docs" / "reasons").glob("*.md")} == {*REASONS, "index"}
    assert {path.stem for path in EXAMPLES.glob("*.txt")} <= {*REASONS}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.txt")), ids=lambda path: path.stem)
def test_examples_of_reasons(path: Path, tmp_path: Path) -> None:
    program = tmp_path / "example.py"  # not among framelift's own files
    program.write_text(path.read_text())
    space = runpy.run_path(str(program))
    given = space["inputs"]()
    assert framelift.dry_run(space["broken"], *given).breaks[0].reason == path.stem
    assert not framelift.dry_run(space["fixed"], *given).breaks


def test_reference_pages() -> None:
    docs = load("docs")
    pages = {name: make() for name, make in docs.GENERATED.items()}
    assert all(f"### `framelift.{name}`" in pages["api.md"] for name in framelift.__all__)
    assert "## More" not in pages["api.md"], "tools/docs.py: TASKS says what each public name is for"
    assert max(map(len, re.findall(r"^```py\n(.*?)$", pages["api.md"], re.M))) < 100
    assert "## python -m framelift report" in pages["command_line.md"] and "recompile_limit" in pages["options.md"]
    assert "| `fix` | `str` |" in pages["report.md"]
    assert "| `FRAMELIFT_LOGS` |" in pages["environment.md"] and "`TORCHDYNAMO_VERBOSE`" in pages["environment.md"]
    assert "| `guards/kinds.py` | " in docs.files_of("guards") and "##" not in docs.files_of("guards")[2:]

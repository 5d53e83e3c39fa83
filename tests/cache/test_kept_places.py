"""Captures kept on disk, of source that lies in another folder or at other lines when it is loaded."""

from __future__ import annotations

import importlib
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift

from kept_support import counted

NAME = "a_travelling_module"
#: name of an edit that changes nothing which is computed -> the edit
EDITS: dict[str, Callable[[str], str]] = {
    "another folder": lambda text: text,
    "a comment above": lambda text: f"# one line\n# and another\n{text}",
    "comments inside": lambda text: text.replace(": # here\n", ":\n    # a comment,\n    # and one more\n"),
    "other columns": lambda text: text.replace(" * ", "   *   "),
}


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(framelift.config, "cache_dir", str(tmp_path / "kept"))
    monkeypatch.setattr(framelift.config, "cache", True)
    yield
    sys.modules.pop(NAME, None)
    framelift.reset()


def module(folder: Path, text: str) -> types.ModuleType:
    """The module with this text, imported from a folder."""
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.py").write_text(text)
    spec = importlib.util.spec_from_file_location(NAME, folder / f"{NAME}.py")
    assert spec is not None and spec.loader is not None
    made = sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def text_of(source: str) -> str:
    return "import sys\nimport warnings\nimport torch\n" + textwrap.dedent(source)


MODEL = text_of("""
    SCALE = 3

    def below(x): # here
        return x * SCALE

    class Model(torch.nn.Module):
        def __init__(self): # here
            super().__init__()
            self.factor = 2

        def forward(self, x): # here
            y = below(x) + self.factor
            return y.relu(), (lambda z: z * 7)

    f = Model()
""")


@pytest.mark.parametrize("edit", EDITS)
def test_source_at_another_place_is_loaded(edit: str, tmp_path: Path) -> None:
    x = torch.ones(3)
    (first, _), *counts = counted(module(tmp_path / "one", MODEL).f, x)
    assert counts == [1, 0]
    moved = module(tmp_path / "two", EDITS[edit](MODEL))
    framelift.reset()
    compiled = framelift.compile(moved.f, backend="eager")
    result, made = compiled(x)
    assert framelift.stats()["captures"] == 0 and framelift.stats()["loaded"] == 1
    assert torch.equal(result, first)
    expected = moved.f(x)[1].__code__
    assert made.__code__ is expected  # the function that is defined there
    lines = (tmp_path / "two" / f"{NAME}.py").read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "SCALE" in line and "return" in line)
    (info,) = [entry.info for entry in compiled._compiled.entries]
    traces = "".join(node.meta.get("stack_trace", "") for node in info.graph_module.graph.nodes)
    assert (
        f'File "{tmp_path / "two" / NAME}.py", line {number}, in below' in traces
        and str(tmp_path / "one") not in traces
    )
    moved.SCALE = 4
    assert torch.equal(compiled(x)[0], moved.f(x)[0])
    assert f"{NAME}.py:{number} in below" in str(compiled.report()) and str(tmp_path / "one") not in str(
        compiled.report()
    )


@pytest.mark.parametrize("edit", EDITS)
def test_a_break_at_another_place_is_loaded(edit: str, tmp_path: Path) -> None:
    text = text_of("""
        def unknown(x): # here
            x = x + 1
            print("in the middle")
            return x * 2

        def f(x): # here
            return unknown(x * 3) - 1
    """)
    x = torch.ones(3)
    first, captures, _ = counted(module(tmp_path / "one", text).f, x)
    moved = module(tmp_path / "two", EDITS[edit](text))
    framelift.reset()
    compiled = framelift.compile(moved.f, backend="eager")
    assert torch.equal(compiled(x), first)
    assert framelift.stats()["captures"] == 0 and framelift.stats()["loaded"] == captures > 1
    report = str(compiled.report())
    lines = (tmp_path / "two" / f"{NAME}.py").read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "print(" in line)
    assert f"{NAME}.py:{number}" in report and str(tmp_path / "one") not in report


LOOKING = {
    "line of the frame": "return x + sys._getframe().f_lineno",
    "first line": "return x + f.__code__.co_firstlineno",
    "first line of a function made inside": "return x + (lambda: 1).__code__.co_firstlineno",
    "length of the file's name": "return x + len(sys._getframe().f_code.co_filename)",
    "line of a traceback": """
        try:
            raise ValueError
        except ValueError as error:
            return x + error.__traceback__.tb_lineno""",
    "line of a generator": "return x + (one for one in (1, 2)).gi_code.co_firstlineno",
    "line of code that is held": "return x + (lambda code=(lambda: 1).__code__: code)().co_firstlineno",
    "line by name": "return x + getattr(sys._getframe(), 'f_li' + 'neno')",
    "line of a warning": """
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.warn("something")
        return x + said[0].lineno""",
}


@pytest.mark.parametrize("looks", LOOKING)
@pytest.mark.parametrize("edit", ["another folder", "a comment above", "comments inside"])
def test_code_that_looks_at_its_place_is_not_loaded_elsewhere(looks: str, edit: str, tmp_path: Path) -> None:
    body = textwrap.indent(textwrap.dedent(LOOKING[looks]).strip(), "    ")
    text = text_of("def f(x): # here\n" + body + "\n")
    x = torch.zeros(3)
    _, captures, _ = counted(module(tmp_path / "one", text).f, x)
    eagerly = framelift.stats()["breaks"]  # what the code looks at is then no part of what is kept
    again, rehearsed, loaded = counted(module(tmp_path / "one", text).f, x)
    assert torch.equal(again, module(tmp_path / "one", text).f(x))
    assert (rehearsed, loaded) == (0, captures), framelift.stats()["not_kept"]
    moved = module(tmp_path / "a folder of another length", EDITS[edit](text))
    found, rehearsed, _ = counted(moved.f, x)
    assert torch.equal(found, moved.f(x)) and (rehearsed or eagerly)


@pytest.mark.parametrize("old, new", [("3", "4"), ("x * SCALE", "SCALE * x"), ("self.factor = 2", "self.factor = 2.0")])
def test_what_computes_something_else_is_not_loaded(old: str, new: str, tmp_path: Path) -> None:
    x = torch.ones(3)
    counted(module(tmp_path / "one", MODEL).f, x)
    edited = module(tmp_path / "two", "# a comment\n" + MODEL.replace(old, new, 1))
    result, captures, loaded = counted(edited.f, x)
    assert torch.equal(result[0], edited.f(x)[0]) and (captures, loaded) == (1, 0)


def test_another_module_is_not_taken_for_this_one(tmp_path: Path) -> None:
    text = text_of("def f(x):\n    return x + len(__name__)\n")
    first = module(tmp_path / "one", text)
    counted(first.f, torch.ones(3))
    space: dict[str, Any] = {"__name__": "another"}
    other = sys.modules["another"] = types.ModuleType("another")
    try:
        exec(compile(text, first.__file__ or "", "exec"), vars(other))
        result, captures, loaded = counted(other.f, torch.ones(3))
        assert torch.equal(result, torch.ones(3) + len("another")) and (captures, loaded) == (1, 0)
    finally:
        del sys.modules["another"], space

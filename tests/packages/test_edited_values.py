"""Packages of functions whose module was edited since: what a member of an enumeration carries is compared."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config

ROWS = (
    ("enum.IntEnum", "1", "9", "x * K.A"),
    ("str, enum.Enum", "'a'", "'b'", "x * (K.A == 'a')"),
    ("float, enum.Enum", "0.0", "-0.0", "x * (1.0 / (K.A + 1))"),
    ("tuple, enum.Enum", "(1, 2)", "(1, 3)", "x * K.A[1]"),
    ("bytes, enum.Enum", "b'a'", "b'b'", "x * (K.A == b'a')"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with config.patch(cache_dir=str(tmp_path / "keys")):
        yield tmp_path
    sys.modules.pop("edited_values", None)


def imported(folder: Path, bases: str, payload: str, use: str) -> Any:
    text = f"import enum\nclass K({bases}):\n    A = {payload}\ndef f(x):\n    return {use}\n"
    (folder / "edited_values.py").write_text(text)
    sys.modules.pop("edited_values", None)
    importlib.invalidate_caches()
    return importlib.import_module("edited_values")


@pytest.mark.parametrize("bases, payload, other, use", ROWS)
def test_an_edited_member_is_refused(folder: Path, bases: str, payload: str, other: str, use: str) -> None:
    x = torch.arange(2.0)
    module = imported(folder, bases, payload, use)
    compiled = framelift.compile(module.f, backend="eager", fullgraph=True)
    compiled.aot_compile(((x,), {})).save_compiled_function(folder / "package")
    module = imported(folder, bases, payload, use)
    assert torch.equal(framelift.load_compiled_function(folder / "package")(x), module.f(x))
    imported(folder, bases, other, use)
    with pytest.raises(RuntimeError, match="check failed"):
        framelift.load_compiled_function(folder / "package")(x)

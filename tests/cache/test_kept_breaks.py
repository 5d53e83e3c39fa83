"""Captures with graph breaks, kept on disk: frames up to a break, what follows it, and frames that run eagerly."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from kept_support import counted

SCALE = 2
ANSWERS = {"value": 1}


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


def at_a_call(x: torch.Tensor) -> torch.Tensor:
    y = x * SCALE
    framelift.graph_break()
    return y + SCALE


def twice(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = x + SCALE
        framelift.graph_break()
    return x * 3


def in_a_handler(x: torch.Tensor) -> Any:
    found = []
    try:
        y = x + 1
        raise KeyError("key")
    except KeyError as error:
        framelift.graph_break()
        found.append((type(error).__name__, y * 2))
    finally:
        found.append(x.cos())
    return found


def in_a_block(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
        framelift.graph_break()
        z = y * x
    return z + y


def closing(x: torch.Tensor) -> torch.Tensor:
    by = x.sum()

    def inner(y: torch.Tensor) -> torch.Tensor:
        return y * by + SCALE

    framelift.graph_break()
    return inner(x) + by


def by_data(x: torch.Tensor) -> torch.Tensor:
    if (x.sum() > 0).item():
        return x + SCALE
    return x - 1


def below(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    return x + SCALE


def calls_below(x: torch.Tensor) -> torch.Tensor:
    return below(x * 2) * 3


def leaving(x: torch.Tensor) -> torch.Tensor:
    raise ValueError(f"no {SCALE}")


def skipping(x: torch.Tensor) -> torch.Tensor:
    framelift.skip_frame()
    return x * SCALE


PROGRAMS = [at_a_call, twice, in_a_handler, in_a_block, closing, by_data, calls_below, leaving, skipping]


def run(function: Callable[..., Any], x: torch.Tensor) -> tuple[str, int, int]:
    try:
        result, captures, loaded = counted(function, x)
    except ValueError as error:
        stats = framelift.stats()
        return repr(error), stats["captures"], stats["loaded"]
    return repr(result), captures, loaded


def eager(function: Callable[..., Any], x: torch.Tensor) -> str:
    try:
        return repr(function(x))
    except ValueError as error:
        return repr(error)


@pytest.mark.parametrize("function", PROGRAMS, ids=[one.__name__ for one in PROGRAMS])
def test_all_parts_are_loaded(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    result, captures, loaded = run(function, x)
    assert result == eager(function, x) and loaded == 0 and not framelift.stats()["not_kept"]
    broken = framelift.stats()["breaks"]
    assert run(function, x) == (result, 0, captures)
    assert framelift.stats()["breaks"] == broken
    monkeypatch.setitem(globals(), "SCALE", 5)
    result, captures, _ = run(function, x)
    assert result == eager(function, x)
    assert captures > 0 or function in (in_a_handler, in_a_block, skipping)  # which do not read it before


def test_a_break_is_reported_as_before() -> None:
    shown = []
    for _ in range(2):
        framelift.reset()
        compiled = framelift.compile(at_a_call, backend="eager")
        compiled(torch.ones(2))
        first = compiled.entries[0].info
        shown.append((first.reason, first.reason_id, first.where, first.stop))
    assert shown[0] == shown[1] and shown[0][1] == "graph-break" and first.loaded


SOURCE = """
import framelift

def deepest(x):
    {}
    return x + 1

def deep(x):
    return deepest(x)

def top(x):
    return deep(x * 2) * 3
"""


def test_a_break_whose_source_was_edited_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    for text in ("framelift.graph_break()", "framelift.graph_break()", "pass"):
        (tmp_path / "broken_program.py").write_text(SOURCE.format(text))
        sys.modules.pop("broken_program", None)
        importlib.invalidate_caches()
        program: Any = importlib.import_module("broken_program")
        result, *counts = counted(program.top, torch.ones(2))
        assert result.tolist() == [9, 9]
        found.append(counts)
    del sys.modules["broken_program"]
    assert found[0][1] == 0 and found[1][0] == 0 and found[2][0] == 1, found


@framelift.assume_constant_result
def answer(more: int = 0) -> int:
    ANSWERS["asked"] += 1
    return ANSWERS["value"] + more


@functools.lru_cache
@framelift.assume_constant_result
def kept_answer() -> int:
    return ANSWERS["value"]


def test_a_declared_constant_is_of_its_process_and_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * answer() + answer(more=2) + kept_answer()

    monkeypatch.setitem(ANSWERS, "asked", 0)
    for value, captures, loaded in ((1, 1, 0), (1, 0, 1), (2, 1, 0), (1, 0, 1), (2, 0, 1)):
        kept_answer.cache_clear()
        monkeypatch.setitem(ANSWERS, "value", value)
        before = ANSWERS["asked"]
        assert counted(function, torch.ones(1)) == (torch.ones(1) * (3 * value + 2), captures, loaded)
        if loaded and value == 1:
            assert ANSWERS["asked"] - before == 2


def test_a_declared_constant_that_has_no_written_form(monkeypatch: pytest.MonkeyPatch) -> None:
    made = framelift.assume_constant_result(lambda: ANSWERS["value"])

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * made()

    for value in (1, 2):
        monkeypatch.setitem(ANSWERS, "value", value)
        assert counted(function, torch.ones(1)) == (torch.ones(1) * value, 1, 0)

"""Tracebacks as captured code reads and prints them: the rows, instructions and lines that plain Python shows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import operator
import re
import sys
import traceback
from pathlib import Path

import pytest
import torch

import framelift
from support import check


def rows(error):
    found, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        position = list(code.co_positions())[trace.tb_lasti // 2]
        found.append((code.co_name, trace.tb_lineno, position))
        trace = trace.tb_next
    return found


class Holder:
    @property
    def broken(self):
        return self.nothing


def fails_in_a_loop(values):
    return [1 // value for value in values]


def failing(number):
    """Fails in an instruction that is a probe's, in one that is not, in C code, and in functions that C code calls."""
    match number:
        case 0:
            return no_such_name  # noqa: F821
        case 1:
            return Holder().broken
        case 2:
            return fails_in_a_loop((2, 1, 0))
        case 3:
            return sorted([2, 1], key=lambda value: value.nothing)
        case 4:
            return operator.attrgetter("a.b")(number)
        case 5:
            return next(value / 0 for value in (1, 2))
        case 6:
            return getattr(number, "nothing")
        case 7:
            unbound = number
            del unbound
            return unbound
        case 8:
            return int("x" * 3) + int("1")


def test_rows_of_tracebacks() -> None:
    def f(x):
        found = []
        for number in range(9):
            try:
                failing(number)
            except Exception as error:
                found.append(rows(error))
        return x + 1, found

    check(f, torch.ones(2))
    x = torch.ones(2)
    assert framelift.compile(f, backend="eager", fullgraph=True)(x)[1] == f(x)[1]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="suggestions read the builtins of a frame: a graph break")
def test_printed_tracebacks() -> None:
    def f(x):
        texts = []
        for number in range(9):
            out = io.StringIO()
            with contextlib.redirect_stderr(out):
                try:
                    try:
                        failing(number)
                    except Exception as error:
                        texts.append(traceback.format_exc())
                        raise KeyError(number) from error
                except KeyError:
                    traceback.print_exc()
                    print("behind it", file=sys.stderr)
            texts.append(out.getvalue())
        return x + 1, texts

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(x)[1] == f(x)[1]
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("listed", [True, False])
def test_a_changed_file_is_read_again(tmp_path: Path, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def fail():\n    return 1 / 0  # before\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if listed:
        monkeypatch.setitem(sys.modules, "changing", module)
    fail = module.fail

    def f(x):
        try:
            fail()
        except ZeroDivisionError:
            return x + 1, traceback.format_exc()

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager")
    assert "# before" in compiled(x)[1]
    path.write_text("def fail():\n    return 1 / 0  # and behind\n")
    assert compiled(x)[1] == f(x)[1] and "# and behind" in compiled(x)[1]


def test_frames_are_cleared_behind_a_substitute() -> None:
    """`assertRaises` clears the frames of what it caught; what a substitute raised has fewer of them."""

    def f(x):
        try:
            re.compile("(unbalanced")
        except re.error as error:
            traceback.clear_frames(error.__traceback__)
            return x + 1, error.msg, error.pos
        return x

    check(f, torch.ones(2))

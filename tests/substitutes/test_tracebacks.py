"""Tracebacks and frames show rows and lines of plain Python: captured code that looks at them runs eagerly."""

from __future__ import annotations

import contextlib
import io
import operator
import re
import sys
import traceback

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

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(x)[1] == f(x)[1]


def test_printed_tracebacks() -> None:
    def f(x):
        texts = []
        for number in range(9):
            try:
                try:
                    failing(number)
                except Exception as error:
                    texts.append(traceback.format_exc())
                    raise KeyError(number) from error
            except KeyError:
                texts.append(traceback.format_exc())
        return x + 1, texts

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(x)[1] == f(x)[1]


def test_printing_an_error_runs_eagerly() -> None:
    def f(x):
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            try:
                failing(0)
            except NameError:
                sys.excepthook(*sys.exc_info())
        return x + 1, out.getvalue()

    x = torch.ones(2)
    assert framelift.compile(f, backend="eager")(x)[1] == f(x)[1]


def test_code_and_lines_of_frames_run_eagerly() -> None:
    def named():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno, frame.f_globals["__name__"]

    def f(x):
        return x + 1, named()

    x = torch.ones(2)
    assert framelift.compile(f, backend="eager")(x)[1] == f(x)[1]


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

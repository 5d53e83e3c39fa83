"""sys.excepthook into a text file in memory: what plain Python writes, with its suggestions."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest
import torch

import framelift
from support import check

nearly_there = 1
names = ["size", "shape"]


class Listed:
    attribute = 1

    def __dir__(self):
        return [*names, "attribute"]


class Failing:
    def __dir__(self):
        raise ValueError("no names")


class Own(NameError):
    pass


def fails(number):
    match number:
        case 0:
            return nearly_ther  # noqa: F821
        case 1:
            wonderful = number
            return wonderfl  # noqa: F821
        case 2:
            return Listed().atribute
        case 3:
            return Listed().shap
        case 4:
            return Failing().atribute
        case 5:
            return prnt  # noqa: F821
        case 6:
            try:
                return [].apend
            except AttributeError as error:
                raise ValueError("two lines\nof text") from error
        case 7:
            try:
                return nearly_ther  # noqa: F821
            except NameError:
                return Listed().nothing_like_it
        case 8:
            raise Own("nearly_ther", name="nearly_ther")
        case 9:
            zebra = zibra = 1
            del zebra, zibra
            return zobra  # noqa: F821
        case 10:
            return 1 // 0


@contextlib.contextmanager
def instead_of_stderr():
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        yield sys.stderr
    finally:
        sys.stderr = before


#: errors with a suggestion, for which the traceback module of CPython 3.12 looks at `f_builtins`: a graph break
_SUGGESTED = (0, 1, 5, 7, 8, 9)


@pytest.mark.parametrize("number", range(11))
def test_what_is_written(number):
    def fn(x):
        with instead_of_stderr() as file:
            try:
                fails(number)
            except Exception:
                sys.__excepthook__(*sys.exc_info())
        return x + 1, file.getvalue()

    is_whole = sys.version_info < (3, 12) or number not in _SUGGESTED
    check(fn, torch.ones(2), **({} if is_whole else {"graphs": None, "breaks": None, "fullgraph": False}))


def test_names_that_change():
    def fn(x):
        with instead_of_stderr() as file:
            try:
                Listed().shap
            except Exception:
                sys.excepthook(*sys.exc_info())
        return x + 1, file.getvalue()

    def renamed(number, world):
        names[1] = ("shape", "other")[number % 2]

    try:
        check(fn, torch.ones(2), calls=3, mutate=renamed, graphs=None)
    finally:
        names[1] = "shape"


def test_the_terminal_is_left_to_the_program(capsys):
    def fn(x):
        try:
            fails(2)
        except AttributeError:
            sys.__excepthook__(*sys.exc_info())
        return x + 1

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        compiled(torch.ones(2))
        assert capsys.readouterr().err.count("Did you mean: 'attribute'?") == 1

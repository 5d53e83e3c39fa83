"""Floating-point errors of numpy: where they raise or call something, numpy itself calculates."""

from __future__ import annotations

import warnings

import pytest
import torch

import framelift

numpy = pytest.importorskip("numpy")
X = torch.ones(3)
ZERO = numpy.array([0.0, 1.0, 2.0])


def _logarithm(x, a):
    try:
        return numpy.log(a), a / numpy.zeros(3)
    except (FloatingPointError, RuntimeWarning) as error:
        return str(error)


def _inside(x, a):
    with numpy.errstate(all="raise"):
        try:
            return numpy.log(a)
        except FloatingPointError as error:
            return str(error)


@pytest.mark.parametrize("value", [ZERO, numpy.float64(0)], ids=["array", "scalar"])
@pytest.mark.parametrize("program", [_logarithm, _inside])
def test_errors_that_raise(program, value) -> None:
    compiled = framelift.compile(program, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for how in ("warn", "raise", "ignore", "raise", "warn"):
            with numpy.errstate(all=how):
                assert str(compiled(X, value)) == str(program(X, value)), how


def test_warnings_that_are_errors() -> None:
    compiled = framelift.compile(_logarithm, backend="eager")
    for action in ("ignore", "error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert str(compiled(X, ZERO)) == str(_logarithm(X, ZERO)), action


def test_what_numpy_calls() -> None:
    heard = []

    def program(x, a):
        return numpy.log(a)

    compiled = framelift.compile(program, backend="eager")
    for function in (compiled, program):
        heard.append([])
        before = numpy.seterrcall(lambda kind, flag: heard[-1].append(kind))
        try:
            for how in ("ignore", "call", "ignore", "call"):
                with numpy.errstate(all=how):
                    function(X, ZERO)
        finally:
            numpy.seterrcall(before)
    assert heard[0] == heard[1] and heard[0]


def test_a_warning_about_plain_numbers_comes_at_each_call() -> None:
    def program(x):
        return x + float(numpy.log(numpy.float64(0)))

    compiled = framelift.compile(program, backend="eager")
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            compiled(X)

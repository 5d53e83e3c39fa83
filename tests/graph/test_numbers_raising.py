"""Calculations with numbers that change, where some calls' numbers raise and captured code catches it.

That it raises is a fact of the call.
"""

import math
import operator

import numpy as np
import pytest
import torch

from support import check

FLOATS = [
    (5.5, 3.25),
    (7.25, 0.0),
    (6.5, 2.0),
    (-3.0, 0.5),
    (1e308, 10.0),
    (float("inf"), 2.0),
    (0.0, -1.5),
    (4.0, 3.0),
]
INTS = [(5, 3), (7, 4), (7, 0), (-3, 2), (0, -1), (9, 100), (True, 2), (4, 6)]
MIXED = [(5, 3.5), (7, 0.0), (-3, 0.5), (9, 1000.0), (4, 6.0)]
OPERATIONS = {
    "mod": operator.mod,
    "floordiv": operator.floordiv,
    "truediv": operator.truediv,
    "divmod": divmod,
    "pow": operator.pow,
    "fmod": math.fmod,
    "math.pow": math.pow,
    "log": math.log,
    "sqrt": lambda v, w: math.sqrt(v),
    "exp": lambda v, w: math.exp(v),
    "int": lambda v, w: int(v),
    "floor": lambda v, w: math.floor(v),
    "round": lambda v, w: round(v),
    "asin": lambda v, w: math.asin(w),
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "pow of three": lambda v, w: pow(v, w, 7),
    "pow of a constant": lambda v, w: pow(2, w, 7),
    "pow by keyword": lambda v, w: pow(v, 2, mod=w),
}


def _all(operation, pairs):
    def f(x, v, w):
        try:
            found = operation(v, w)
        except (ArithmeticError, ValueError, TypeError) as error:
            found = type(error).__name__, str(error)
        return x + 1, found

    def change(number, world):
        world.args[1:] = pairs[number]

    check(f, torch.ones(2), *pairs[0], calls=len(pairs), mutate=change, graphs=None)


@pytest.mark.parametrize(
    "pairs", [FLOATS, INTS, MIXED, [pair[::-1] for pair in MIXED]], ids=["floats", "ints", "mixed", "turned"]
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_calculations_that_raise(name, pairs):
    _all(OPERATIONS[name], pairs)


def test_one_capture_for_all_that_raises_alike():
    def f(x, v, w):
        try:
            return x + v / w
        except ZeroDivisionError:
            return x - v

    def change(number, world):
        world.args[1:] = [number + 0.5, 0.0]

    check(f, torch.ones(2), 0.25, 2.0, calls=9, mutate=change, graphs=None, captures=2)


def test_functions_of_one_name():
    """numpy's floor and Python's: the function decides which is meant, not its name."""

    def f(x, v, w):
        return x + 1, math.floor(v), np.floor(w), math.floor(v + 1)

    def change(number, world):
        world.args[1:] = [number + 1.5, np.float64(number + 2.5)]

    check(f, torch.ones(2), 1.5, np.float64(2.5), calls=4, mutate=change, graphs=None)


def test_powers_that_are_real_in_some_calls_only():
    numbers = [2.5, 1.5, -2.0, -3.0, 0.0, 4.0]

    def f(x, v):
        power = (-v) ** 0.5
        return x + 1, power, type(power).__name__, isinstance(power, float), v**2.0, 2.0**v

    def change(number, world):
        world.args[1] = numbers[number]

    check(f, torch.ones(2), numbers[0], calls=len(numbers), mutate=change, graphs=None)


@pytest.mark.parametrize(
    "operation",
    [
        lambda n: 1 / n,
        lambda n: 7.5 / n,
        lambda n: math.sqrt(n - 1),
        lambda n: math.log(n),
        lambda n: 2.0 ** (n * 2000),
        lambda n: 1 // n,
        lambda n: 5 % n,
        lambda n: divmod(5.5, n),
        lambda n: 1 / n + 3,
    ],
    ids=["int", "float", "sqrt", "log", "pow", "floordiv", "mod", "divmod", "sum"],
)
@pytest.mark.parametrize("numbers", [(0, 1, 1, 0, 5, 0), (1, 2, 0, 3, 0), (3, 3, 1, 0, 4), (4, 5, 6, 0, 0, 7)])
def test_a_result_that_nobody_uses_may_raise(operation, numbers):
    """Whether the calculation succeeds decides which way the program goes, though its result is dropped."""

    def f(x, n):
        try:
            operation(n)
        except (ArithmeticError, ValueError) as error:
            return x + 100, str(error)
        return x + 1

    def change(number, world):
        world.args[1] = numbers[number]

    check(f, torch.ones(2), numbers[0], calls=len(numbers), mutate=change, graphs=None)

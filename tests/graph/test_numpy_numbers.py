"""Scalars of numpy that change from call to call, beside every kind of operand: numpy's answers, of numpy's types."""

import datetime
import decimal
import enum
import math

import numpy as np
import pytest
import torch

import framelift


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


class Own:
    def __radd__(self, other):
        return ("own", other)

    def __eq__(self, other):
        return "asked"


OWN = Own()

PROGRAMS = {
    "text": lambda n: n == "4",
    "enum": lambda n: (Level.LOW == n - 1, n == Level.HIGH, Level.LOW + n, n * Level.HIGH, Level.LOW < n),
    "time": lambda n: datetime.timedelta(1) * n,
    "complex": lambda n: (n + 1j, 2j * n),
    "own class": lambda n: (n + OWN, n == OWN, OWN == n),
    "list": lambda n: ([1, 2] * int(n), n * [1, 2]),
    "bits": lambda n: (n & 6, 1 | n, n ^ n, n << 2, 64 >> n, divmod(n, 3), divmod(20, n)),
    "two": lambda n: (n & (n + 1), n << (n - 3), divmod(n, n - 1), n ** (n - 2)),
    "whole": lambda n: (math.floor(n), math.ceil(n), round(n)),
    "functions": lambda n: (
        np.sqrt(n),
        np.maximum(n, 4),
        np.power(2, n),
        np.isnan(n),
        np.divmod(n, 3),
        np.add(n, 1.5),
        np.sum([n, 1]),
        np.gcd(n, 6),
    ),
    "array": lambda n: ((n * np.ones(2)).tolist(), (np.arange(3) - n).tolist(), (n == np.arange(6)).tolist()),
    "none": lambda n: (n == None, n != None),  # noqa: E711
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_beside_any_operand(name):
    def program(x, n):
        return x + 1, PROGRAMS[name](n)

    compiled = framelift.compile(program, backend="eager")
    for value in (4, 5, 6, 4, 3):
        expected, found = (one(torch.ones(2), np.int64(value))[1] for one in (program, compiled))
        assert repr(found) == repr(expected) and type(found) is type(expected)
        if type(expected) is tuple:
            assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("name", ["text", "own class", "whole", "functions", "none"])
def test_of_floats(name):
    def program(x, n):
        try:
            return x + 1, PROGRAMS[name](n)
        except TypeError as error:
            return x, str(error)

    compiled = framelift.compile(program, backend="eager")
    for value in (4.5, 5.25, -6.75):
        expected, found = (one(torch.ones(2), np.float32(value))[1] for one in (program, compiled))
        assert repr(found) == repr(expected)


OF_SIZES = {
    "ceil": lambda x: torch.cat(x.chunk(int(np.ceil(x.shape[0] / 100)), 0)),
    "floor": lambda x: x * np.floor(x.shape[0] / 2),
    "sqrt": lambda x: x * float(np.sqrt(x.shape[0])),
    "two": lambda x: x * np.minimum(x.shape[0], 50) + np.maximum(3, x.shape[0]),
    "prod": lambda x: x * np.prod(x.shape),
    "list": lambda x: x * int(np.max([x.shape[0], 3])),
    "round": lambda x: x * int(np.round(x.shape[0] / 3)),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_functions_of_sizes_that_change(name):
    framelift.reset()
    compiled = framelift.compile(OF_SIZES[name], backend="eager", fullgraph=True)
    for size in (9, 10, 12, 20):
        assert torch.equal(compiled(torch.ones(size)), OF_SIZES[name](torch.ones(size)))
    if name in ("ceil", "floor", "sqrt", "two"):
        assert framelift.stats()["graphs"] == 2

"""Numbers that are not equal to themselves: containers find them by identity, so which object one is can be seen."""

from __future__ import annotations

import decimal
import math
import struct

import pytest
import torch

import framelift

X = torch.ones(2)
OUTSIDE = struct.unpack("d", struct.pack("Q", 0xFFF8000000001234))[0]


class Box:
    last = None


MAKERS = {
    "float": lambda: float("nan"),
    "calculated": lambda: -OUTSIDE,
    "complex": lambda: complex(1, float("nan")),
    "of a module": lambda: math.nan,
    "from outside": lambda: OUTSIDE,
    "constant of the code": lambda: 1e999 - 1e999,
    "default": lambda made=float("nan"): made,
}


def _seen(function, box, calls):
    """Of each two calls, whether they left one object; and the text of the last."""
    left = []
    for _ in range(calls):
        function(X)
        left.append(box.last)
    return [a is b for a in left for b in left], repr(left[-1])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_nan_is_another_object_where_the_program_makes_another_one(make) -> None:
    box = Box()

    def program(x):
        box.last = make()
        return x + 1

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    assert _seen(compiled, box, 3) == _seen(program, box, 3)
    assert len(compiled.entries) == 1


def test_a_nan_keeps_its_bits_and_is_one_object_in_all_places() -> None:
    def program(x):
        nan = -OUTSIDE
        many = [nan] * 40
        return [x + 1, nan, (nan, nan), {nan: nan}, {"of": {nan}}, many, float("nan")]

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        _, nan, pair, table, of, many, other = compiled(X)
        assert struct.pack("d", nan) == struct.pack("d", -OUTSIDE)
        assert nan is pair[0] is pair[1] is many[0] is many[-1] is table[nan] and nan in of["of"]
        assert other is not nan and many.count(nan) == 40 and many.count(other) == 0


PLACES = {
    "argument": lambda nan: nan,
    "in a tuple": lambda nan: (nan, 1),
    "in a list": lambda nan: [nan],
    "in a set": lambda nan: {nan},
    "key": lambda nan: {nan: 1},
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("kind", [float, complex])
def test_a_nan_from_outside_leaves_as_the_object_it_is(place, kind) -> None:
    def program(x, given):
        return x + 1, given if type(given) is kind else next(iter(given))

    compiled = framelift.compile(program, backend="eager")
    for _ in range(3):
        nan = kind("nan")
        assert compiled(X, place(nan))[1] is nan

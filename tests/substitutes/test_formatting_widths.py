"""Widths and precisions of `%`: C code takes them only from plain ints."""

from __future__ import annotations

import pytest
import torch

import framelift

X = torch.ones(2)


def _caught(make):
    def program(x, n):
        try:
            return x + 1, make(n)
        except TypeError as error:
            return x + 1, str(error)

    return program


TEXTS = {
    "width": lambda n: "%*d" % (n, 5),
    "precision": lambda n: "%.*f" % (n, 2.5),
    "bytes": lambda n: b"%*d" % (n, 3),
    "bytearray": lambda n: bytes(bytearray(b"%-*d|") % (n, 3)),
    "too few": lambda n: "%*d" % (n,),
    "none": lambda n: "%d%%" % n,
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS.keys())
def test_a_width_that_changes(make) -> None:
    program = _caught(make)
    compiled = framelift.compile(program, backend="eager", fullgraph=True, recompile_limit=20)
    for n in (3, 4, 5, 6):
        assert compiled(X, n)[1] == program(X, n)[1]


def test_in_place() -> None:
    def program(x, n):
        text, rest = "%*d", n
        text %= (n, 4)
        rest %= 3
        return x % n + rest, text

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for n in (3, 4, 5, 6):
        got, want = compiled(X, n), program(X, n)
        assert torch.equal(got[0], want[0]) and got[1] == want[1]

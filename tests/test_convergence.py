"""Few captures for programs whose world changes: what is not looked at is no cause, what is only counted or calculated with is symbolic."""

from __future__ import annotations

import collections

import pytest
import torch

import framelift
from support import compiled  # noqa: F401  (the options of the suite)
from test_shapes import run

X = torch.arange(4.0)


# ---- arguments that nobody reads --------------------------------------------------------------------------------------

def unread(x, unused, *more, **named):
    return x * 2


class Owner:
    def method(self, x):
        return x + 1


def test_an_argument_that_no_instruction_names_is_no_cause():
    values = ["a", 1, {2}, collections.deque([3]), (4,), object(), Owner(), None]
    framelift.reset()
    captured = framelift.compile(unread)
    for i, value in enumerate(values):
        assert torch.equal(captured(X, value, *values[:i], **{f"n{i}": value}), X * 2)
    assert framelift.stats()["captures"] == 1
    assert run(Owner.method, [(Owner(), X), (3, X)])[0] == 1


def looks_at_locals(x, unused):
    return x + 1, sorted(locals()), locals()["unused"]


def looks_at_its_frame(x, unused):
    def inside():
        import sys
        return sys._getframe(1).f_locals["unused"]
    return x + 1, inside()


@pytest.mark.parametrize("fn", [looks_at_locals, looks_at_its_frame])
def test_one_that_is_found_by_looking_at_the_frame_is(fn):
    run(fn, [(X, 1), (X, "b"), (X, 1)])



"""Runs a program captured and plainly, compares the results and counts the captures."""

from __future__ import annotations

import torch

import framelift

__all__ = ["assert_same", "run"]


def run(fn, calls, backend="eager", **options):
    """Call `fn` captured and plainly, compare, and give (captures, the compiled callable)."""
    framelift.reset()
    captured = framelift.compile(fn, backend=backend, **options)
    for args in calls:
        want, got = fn(*args), captured(*args)
        assert_same(want, got)
    return framelift.stats()["captures"], captured


def assert_same(want, got):
    assert type(want) is type(got), (type(want), type(got))
    if isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want, equal_nan=True)
        assert got.stride() == want.stride()
    elif isinstance(want, (tuple, list)):
        assert len(want) == len(got)
        for a, b in zip(want, got):
            assert_same(a, b)
    elif isinstance(want, dict):
        assert list(want) == list(got)
        assert_same(list(want.values()), list(got.values()))
    else:
        assert want == got

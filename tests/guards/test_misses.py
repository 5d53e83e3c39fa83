"""What a recompile says of the value before and now: what differs, in words of users, and nothing else."""

from __future__ import annotations

import pytest
import torch

import framelift


def _own_sum():
    tensor = torch.ones(4)
    tensor.sum = lambda: torch.zeros(())
    return tensor


@pytest.mark.parametrize(
    ("first", "second", "before", "now"),
    [
        (torch.ones(3), torch.ones(4), "size (3,)", "size (4,)"),
        (torch.ones(3), torch.ones(3, dtype=torch.int64), "dtype torch.float32", "dtype torch.int64"),
        (torch.ones(3, 2), torch.ones(2, 3).t(), "stride (2, 1)", "stride (1, 3)"),
        (torch.ones(4), _own_sum(), "sum of its class", "sum of its own"),
        (
            torch.ones(3),
            torch.nn.Parameter(torch.ones(3)),
            "Tensor, requires_grad False",
            "Parameter, requires_grad True",
        ),
    ],
)
def test_a_tensor_that_differs(first, second, before, now):
    def f(x):
        return x.sum() * x.stride(0)

    compiled = framelift.compile(f, backend="eager")
    for given in (first, second):
        assert torch.equal(compiled(given), f(given))
    (cause,) = compiled.report().recompiles
    assert cause.changes == ((before, now),)


def test_sizes_that_may_be_any_do_not_differ():
    def f(x):
        return x.sum() * 2

    compiled = framelift.compile(f, backend="eager", dynamic=True)
    compiled(torch.ones(3))
    compiled(torch.ones(5, dtype=torch.int64))
    (cause,) = compiled.report().recompiles
    assert cause.changes == (("dtype torch.float32", "dtype torch.int64"),)

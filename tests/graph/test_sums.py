"""Sums of numbers that change, where an equality found in between makes them other expressions."""

import pytest
import torch

import framelift


class Count:
    n = 7


def _texts(x, i):
    Count.n = Count.n + i
    first = str(Count.n)
    Count.n = Count.n + i
    return x + 1, first, str(Count.n), Count.n + i


def _chosen(x, i):
    total = i + Count.n
    if total == 30:
        x = x * 2
    return x + total + i, total + i, i + total


@pytest.mark.parametrize("program", [_texts, _chosen])
def test_numbers(program):
    def run(call):
        Count.n, seen = 7, []
        for step in (4, 6, 8, 9, 23, 11):
            result, *more = call(torch.ones(1), step)
            seen.append((result.tolist(), more, Count.n))
        return seen

    assert run(framelift.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes(backend):
    def program(x, y, z):
        both = torch.cat([x, y])
        total = x.size(0) + y.size(0)
        x = x + y  # from here on the two sizes are one
        three = torch.cat([both, z])
        return x, three, total + z.size(0), three.size(0), z.size(0) + total, both.size(0) + z.size(0)

    compiled = framelift.compile(program, backend=backend, dynamic=True)
    for n, m in ((3, 4), (5, 6), (7, 9)):
        tensors = torch.ones(n, 2), torch.ones(n, 2), torch.zeros(m, 2)
        expected, found = program(*tensors), compiled(*tensors)
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(expected, found))

"""Values of tensors that depend on nothing outside are known while capturing."""

from __future__ import annotations

import pytest
import torch

from support import check


def test_values_of_what_factories_made() -> None:
    def f(x):
        rates = torch.linspace(0, 1, 5).tolist()
        mask = ~torch.ones(3, dtype=torch.bool)
        if mask.any():
            return x
        count = int(torch.arange(4).sum())
        return x * rates[2] + count + float(torch.tensor([1.5, 2.5])[1])

    check(f, torch.rand(3))


def test_writes_are_followed() -> None:
    def f(x):
        made = torch.zeros(4)
        view = made[1:3]
        view += 2
        first = made.sum().item()
        made[0] = x[0]
        return x + first + made

    check(f, torch.rand(4))


def test_what_depends_on_the_outside_is_not_known() -> None:
    def f(x):
        made = torch.zeros(2)
        made[0] = x[0]
        return x + made.sum().item()

    check(f, torch.rand(2), graphs=None, breaks=None)

    def g(x):
        return x + torch.rand(1).item()

    check(g, torch.rand(2), graphs=None, breaks=None)


def test_shapes_that_follow_from_known_values() -> None:
    def f(x):
        index = torch.tensor([0, 1, 0, 1]).nonzero().squeeze(1)
        repeated = torch.arange(2).repeat_interleave(torch.tensor([1, 2]))
        return x[index], x[repeated], torch.equal(index, torch.tensor([1, 3]))

    check(f, torch.rand(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_text_of_known_tensors(dtype) -> None:
    def f(x):
        return f"{torch.ones(2, dtype=dtype)} {torch.tensor(2.5):.2f}", x + 1

    check(f, torch.rand(2))

"""A break inside nested calls: callees on the way there are not looked through again for it, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.arange(-4.0, 8.0)


def _asked(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    framelift.graph_break()
    return x * 2


@framelift.disable
def _disabled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _calls_disabled(x: torch.Tensor) -> torch.Tensor:
    return _disabled(x + 1) * 2


def _masked(x: torch.Tensor) -> torch.Tensor:
    mask = x.sin() > 0
    return x[mask] * 2


def _taken(x: torch.Tensor) -> torch.Tensor:
    return x[: int(x.sin().abs().sum())] * 2


def _branches(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 2


def _prints(x: torch.Tensor) -> torch.Tensor:
    print("here", end="")
    return x * 2


class _Nested:
    """Calls around a function, work before and behind each."""

    def __init__(self, leaf: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.leaf = leaf

    def first(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(x + 1) - 1

    def second(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(x.cos()) - 2

    def third(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fourth(x * 3)
        return y - y.mean()

    def fourth(self, x: torch.Tensor) -> torch.Tensor:
        return self.leaf(x) - 3


LEAVES = [_asked, _calls_disabled, _masked, _taken, _branches, _prints]


@pytest.mark.parametrize("leaf", LEAVES)
def test_callees_are_rehearsed_up_to_the_call_that_leads_to_the_break(leaf: Any, capsys: Any) -> None:
    nested = _Nested(leaf)
    compiled = framelift.compile(nested.first, backend="eager")
    compiled(X)
    times = {one.name: one.calls for one in compiled.report().times}
    # once from the root, once or twice by itself, and its rest
    assert times[leaf.__name__] <= 4, times
    check(nested.first, X, breaks=None, captures=None, graphs=None)


def _looped(x: torch.Tensor) -> torch.Tensor:
    for i in range(4):
        x = _middle(x + i, i)
    return x


def _middle(x: torch.Tensor, i: int) -> torch.Tensor:
    y = x.cos()
    return _odd(y, i) + 1


def _odd(x: torch.Tensor, i: int) -> torch.Tensor:
    if i == 2:
        framelift.graph_break()
    return x * 2


def _given_numbers(x: torch.Tensor) -> torch.Tensor:
    return _hands_on(x, (x > 0).sum()) + 1


def _hands_on(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return _takes(x.sin(), n) * 2


def _takes(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * n.item()


def _computed_from_numbers(x: torch.Tensor) -> torch.Tensor:
    return _derives(x, (x > 0).long()) + 1


def _derives(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    total = flags.sum()
    return _takes(x.sin(), total) * 2


def _raises_below(x: torch.Tensor) -> torch.Tensor:
    try:
        return _hands_on_error(x) + 1
    except ValueError as error:
        return x - len(str(error))


def _hands_on_error(x: torch.Tensor) -> torch.Tensor:
    return _fails(x + 1) * 2


def _fails(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    raise ValueError("no")


def _two_ways(x: torch.Tensor) -> torch.Tensor:
    """The callee breaks, and is called again with what does not."""
    return _sometimes(x, True) + _sometimes(x, False)


def _sometimes(x: torch.Tensor, breaks: bool) -> torch.Tensor:
    return _inner(x + 1, breaks) * 2


def _inner(x: torch.Tensor, breaks: bool) -> torch.Tensor:
    if breaks:
        framelift.graph_break()
    return x.sin()


GRAPHS = {_looped: 5, _given_numbers: 3, _computed_from_numbers: 3, _raises_below: 2, _two_ways: 4}


@pytest.mark.parametrize("function", GRAPHS)
def test_no_graph_is_lost(function: Any) -> None:
    check(function, X, graphs=GRAPHS[function], breaks=None, captures=None)

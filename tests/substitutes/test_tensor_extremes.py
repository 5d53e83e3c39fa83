"""`max` and `min` of tensors: captured where nobody can see that the graph gives a copy of the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift
import pytest
import torch
from torch.utils import _pytree as pytree

ROWS = [
    (torch.arange(4.0), torch.ones(4)),
    (torch.ones(4), torch.arange(4.0)),
    (torch.full((4,), float("nan")), torch.arange(4.0)),
    (torch.arange(4.0), torch.full((4,), float("nan"))),
    (torch.full((4,), -0.0), torch.zeros(4)),
]
both = pytest.mark.parametrize("extreme", [max, min])


def agree(program: Callable[..., Any], *, fullgraph: bool) -> Any:
    compiled = framelift.compile(program, backend="eager", fullgraph=fullgraph)
    for row in ROWS:
        plain, given = [one.clone() for one in row], [one.clone() for one in row]
        for expected, found in zip(pytree.tree_leaves(program(*plain)), pytree.tree_leaves(compiled(*given))):
            assert type(expected) is type(found)
            same = repr(expected) == repr(found)
            assert same and (not isinstance(found, torch.Tensor) or found.stride() == expected.stride())
        assert repr(plain) == repr(given)
    return compiled


@both
def test_results_of_the_frame_are_compared_in_the_graph(extreme: Any) -> None:
    programs: list[Callable[..., Any]] = [
        lambda a, b: extreme(a.sum(), b.sum()) * 2,
        lambda a, b: extreme(a.sum(), b.sum()),
        lambda a, b: extreme(map(lambda x: x.sum(), [a, b])),
        lambda a, b: extreme(x.sum() for x in (a, b, a)),
        lambda a, b: extreme([a.sum(), b.sum(), a.sum() + 1]) + b,
        lambda a, b: extreme(a.sum(), extreme(b.sum(), a.mean())) + 1,
    ]
    for program in programs:
        assert len(agree(program, fullgraph=True).entries) == 1


@both
def test_who_is_who_is_as_in_plain_python(extreme: Any) -> None:
    def leaves(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = a.sum(), b.sum()
        return extreme(x, y), x

    def asked(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = a.sum(), b.sum()
        found = extreme(x, y)
        return found is x, found is y

    def written(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = a.sum(), b.sum()
        extreme(x, y).add_(1)
        return x * 1, y * 1

    def operand_written(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = a.sum(), b.sum()
        found = extreme(x, extreme(y, a.mean()))
        x.add_(1)
        return found * 1

    def after_a_break(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = a.sum(), b.sum()
        found = extreme(x, y)
        framelift.graph_break()
        x.add_(1)
        return found * 1

    for program in (leaves, asked, written, operand_written, after_a_break):
        agree(program, fullgraph=False)
    compiled = framelift.compile(leaves, backend="eager")
    found, first = compiled(torch.full((2,), 1.0), torch.full((2,), 1.0))
    assert found is first


@both
def test_what_python_decides(extreme: Any) -> None:
    compiled = framelift.compile(lambda a, b: extreme(a, b), backend="eager")
    for pair in ((torch.ones(()), torch.zeros(())), (torch.zeros(()), torch.ones(()))):
        assert compiled(*pair) is extreme(*pair)
    agree(lambda a, b: extreme(a.sum(), b.sum().double()), fullgraph=False)
    agree(lambda a, b: (extreme(a.sum(), 0), a + 1), fullgraph=False)
    agree(
        lambda a, b: (extreme(x for x in (1, 2)), extreme([3, 1]), extreme("ab"), extreme(3, 2.0), a + 1),
        fullgraph=True,
    )
    with pytest.raises(ValueError, match="empty"):
        framelift.compile(lambda x: (x + 1, extreme([])), backend="eager")(torch.ones(1))
    x, y = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    framelift.compile(lambda a, b: extreme(a.sum(), b.sum()), backend="eager")(x, y).backward()
    assert (x.grad is None) is (extreme is min) and (y.grad is None) is (extreme is max)


@both
def test_items_that_change_while_they_are_walked_over(extreme: Any) -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> Any:
        def items() -> Any:
            first = a.sum()
            yield first
            yield b.sum()
            first.add_(100)
            yield a.mean()
            first.sub_(1000)

        return extreme(items()) * 1

    agree(program, fullgraph=False)


@both
def test_comparisons_of_the_program_come_between_the_items(extreme: Any) -> None:
    class Item:
        def __init__(self, value: int, seen: list[str]) -> None:
            self.value, self.seen = value, seen

        def __gt__(self, other: Item) -> bool:
            self.seen.append("compared")
            return self.value > other.value

        def __lt__(self, other: Item) -> bool:
            self.seen.append("compared")
            return self.value < other.value

    def program(a: torch.Tensor, b: torch.Tensor) -> Any:
        seen: list[str] = []

        def items() -> Any:
            for i in range(3):
                seen.append("made")
                yield Item(i, seen)

        return extreme(items()).value, seen, a + 1

    agree(program, fullgraph=False)

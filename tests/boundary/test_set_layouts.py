"""External sets behave as they lie in memory.

The place of a new element and what `pop` gives follow from their history.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import framelift
from framelift import _core

X = torch.ones(1)


def added(x: Any, held: set[int], number: int) -> Any:
    held.add(number)
    return x + len(held), list(held)


def popped(x: Any, held: set[int], number: int) -> Any:
    held |= {number}
    held -= {2}
    first = held.pop() if held else -1
    return x + len(held), first, list(held)


def joined(x: Any, held: set[int], number: int) -> Any:
    held.symmetric_difference_update({number, 3, 8})
    return x + 1, list(held), list(held | {16}), list(held & {3, 8, number})


def histories() -> list[Any]:
    """Sets of few numbers that were larger once, had others in the way, or were popped from."""
    rows = []
    for seed in range(12):
        draw = random.Random(seed)
        steps = [
            (draw.choice(("add", "add", "add", "discard", "pop")), draw.randrange(40))
            for _ in range(draw.randrange(4, 60))
        ]

        def make(steps: Any = steps) -> set[int]:
            made: set[int] = set()
            for kind, number in steps:
                if kind == "pop":
                    made.pop() if made else None
                else:
                    getattr(made, kind)(number)
            return made

        rows.append(make)
    return rows


@pytest.mark.parametrize("program", [added, popped, joined])
def test_sets_of_any_history(program: Any) -> None:
    for make in histories():
        framelift.reset()
        compiled = framelift.compile(program, backend="eager")
        plain, captured = make(), make()
        for number in (16, 5, 16):
            want, got = program(X, plain, number), compiled(X, captured, number)
            assert want[1:] == got[1:] and list(plain) == list(captured)


def test_copies_lie_as_their_originals() -> None:
    for make in histories():
        original, copy = make(), set()
        _core.copy_set(copy, original)
        assert list(copy) == list(original) and _core.layout_of_set(copy) == _core.layout_of_set(original)
        for number in (16, 5, 33):
            copy.add(number)
            original.add(number)
        while original:
            assert copy.pop() == original.pop()
    with pytest.raises(ValueError):
        _core.copy_set({1}, {2})
    with pytest.raises(TypeError):
        _core.copy_set(frozenset(), {2})

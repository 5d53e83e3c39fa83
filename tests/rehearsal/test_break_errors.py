"""Blocks of `error_on_graph_break` that captured code enters and leaves are those that its entry enters and leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from framelift.rehearsal import break_errors
from framelift.rehearsal.break_errors import Blocks, pop, push


class World:
    """Takes the notes of `note_changes`, as calls in their order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def write(self, _kind: str, function: Any, _number: int, args: tuple[Any, ...]) -> None:
        self.calls.append((function, args))


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        ([], [True]),
        ([True], [None]),
        ([True, False], [None, True]),
        ([True, False], [None, None, False]),
        ([True], [False, None]),
        ([False], [None, None]),
    ],
)
def test_what_is_noted_does_what_was_done(before: list[bool], steps: list[bool | None]) -> None:
    for value in before:
        push(value)
    try:
        blocks, world = Blocks(), World()
        for step in steps:
            blocks.pop() if step is None else blocks.push(step)
        assert break_errors._thread.values == before  # the thread's own are as they were
        assert blocks.is_error == bool(blocks.values and blocks.values[-1])
        blocks.note_changes(world)  # type: ignore[arg-type]
        for function, args in world.calls:
            function(*args)
        assert break_errors._thread.values == blocks.values
    finally:
        break_errors._thread.values.clear()


def test_nothing_is_noted_where_nothing_changed() -> None:
    blocks, world = Blocks(), World()
    blocks.push(True)
    blocks.pop()
    blocks.note_changes(world)  # type: ignore[arg-type]
    assert world.calls == [] and not blocks.is_error
    pop()  # without a block: nothing


def test_a_break_inside_of_a_block_leaves_both_sides_captured() -> None:
    def f(x):
        y = x + 1
        with framelift.error_on_graph_break(False):
            z = y * 2
            framelift.graph_break()
            z = z + 1
        return z * 3

    framelift.reset()
    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
    assert framelift.stats()["graphs"] == 2

"""A rehearsal that is repeated records what the one before it recorded: every test compares them (conftest.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
import repeated_tapes
from support import compiled


def test_rehearsals_up_to_a_break_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes: list[list[list[str]]] = []
    compare = repeated_tapes.differences

    def kept(sessions: Any) -> list[str]:
        tapes.append([[step.target.name for step in one.recorder.tape] for one in sessions])
        return compare(sessions)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).sin()
        print(end="")
        return y * 2

    monkeypatch.setattr(repeated_tapes, "differences", kept)
    assert torch.equal(compiled(f)(torch.ones(2)), f(torch.ones(2)))
    assert tapes[0] == [["add", "sin"], ["add", "sin"]] and repeated_tapes.taken() == []


def test_a_difference_is_found() -> None:
    """A function that the program declares to be constant, and that is not."""
    calls: list[int] = []

    @framelift.assume_constant_result
    def number() -> int:
        calls.append(1)
        return len(calls)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() if number() == 1 else x.cos()
        print(end="")
        return y

    compiled(f)(torch.ones(2))
    (found,) = repeated_tapes.taken()
    assert found == "step 0 is <step cos> in the repeated rehearsal, and was <step sin>"

"""One rehearsal by itself: what it records, where it ends, and what it knows of the arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from framelift.capture.rehearsing import closing, rehearsed
from framelift.vocabulary.reasons import Interrupt


@pytest.fixture
def sessions() -> Iterator[list[Any]]:
    made: list[Any] = []
    with closing(made):
        yield made


def _double(x: torch.Tensor, by: int) -> torch.Tensor:
    return (x + by) * 2


def _item(x: torch.Tensor, by: int) -> Any:
    y = x + by
    return y.item()


def names(session: Any) -> list[str]:
    return [step.target.name for step in session.recorder.tape]


def test_operations_are_recorded_and_arguments_guarded(sessions: list[Any]) -> None:
    session, plan, stop, *_ = rehearsed(_double, (torch.ones(2), 3), made=sessions)
    assert stop is None and plan is not None and session.end.plan is plan and sessions == [session]
    assert names(session) == ["add", "mul"]
    guarded = {(guard.kind, str(guard.origin)) for guard in session.world.guards}
    assert ("EQ", "by") in guarded and any(origin == "x" and kind.startswith("TENSOR") for kind, origin in guarded)


def test_an_interrupt_ends_it_with_the_tape_as_it_was(sessions: list[Any]) -> None:
    session, plan, stop, *_ = rehearsed(_item, (torch.ones(1), 3), made=sessions)
    assert plan is None and type(stop) is Interrupt and stop.reason.id == "tensor-item" and names(session) == ["add"]


def test_an_exception_of_the_program_ends_it(sessions: list[Any]) -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        raise ValueError("said by the program")

    _, plan, stop, *_ = rehearsed(fails, (torch.ones(1),), made=sessions)
    assert plan is None and type(stop) is ValueError and stop.args == ("said by the program",)


def test_two_rehearsals_share_nothing(sessions: list[Any]) -> None:
    given = (torch.ones(2), 3)
    first, second = (rehearsed(_double, given, made=sessions)[0] for _ in range(2))
    assert names(first) == names(second) and first.world is not second.world and first.features is not second.features

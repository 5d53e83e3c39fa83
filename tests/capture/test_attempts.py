"""Another rehearsal is made for what a table says, and so often at most."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

import framelift
from framelift.capture import attempts
from framelift.capture.attempts import COMPILED, MOST_ATTEMPTS, REHEARSED
from framelift.recording.recorder import TapeRecorder
from framelift.vocabulary.reasons import Interrupt


def test_reasons_are_given_once() -> None:
    reasons = [row.because for row in (*REHEARSED, *COMPILED)]
    assert len(set(reasons)) == len(reasons)


def rehearsals(monkeypatch: pytest.MonkeyPatch, function: Any, calls: list[tuple[Any, ...]]) -> list[list[str]]:
    """For each call, why it was rehearsed again."""
    found: list[list[str]] = []
    rows = tuple(
        row._replace(again=lambda tries, first, row=row: found[-1].append(row.because) or row.again(tries, first))
        for row in REHEARSED
    )
    monkeypatch.setattr(attempts, "REHEARSED", rows)
    compiled = framelift.compile(function, backend="eager")
    for args in calls:
        found.append([])
        assert torch.equal(compiled(*args), function(*args))
    return found


def test_a_plain_program_is_rehearsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rehearsals(monkeypatch, lambda x: x * 2, [(torch.ones(3),)]) == [[]]


def test_a_size_that_is_one_is_tried_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rehearsals(monkeypatch, lambda x: x * 2, [(torch.ones(3),), (torch.ones(1),), (torch.ones(5),)])
    assert found == [[], ["the graph may be the same for sizes 0 and 1"], []]


class Counter:
    def __init__(self) -> None:
        self.steps = 0


def test_a_number_that_is_written_is_tried_as_a_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, counter: Counter) -> torch.Tensor:
        counter.steps += 1
        return x * 2

    found = rehearsals(monkeypatch, f, [(torch.ones(3), Counter())])
    assert found == [["captured code writes a number that it read as a constant"]]


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that is to be done first, each time again.

    The interrupt stands in the end, and the frame runs eagerly.
    """
    count: list[int] = []

    def asks_again(self: TapeRecorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stop = Interrupt("torch-operation", "something")
        stop.first = lambda: count.append(1)
        raise stop

    monkeypatch.setattr(TapeRecorder, "call", asks_again)
    monkeypatch.setattr(framelift.config, "strict", False)
    compiled = framelift.compile(lambda x: x.sin(), backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())
    assert len(count) < MOST_ATTEMPTS
    assert compiled.report().captures == 1


def test_modules_that_a_backend_imports_may_change_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: dict[str, int] = {}
    compiles = []

    def importing(gm: Any, inputs: Any) -> Any:
        compiles.append(gm)
        if not registry:  # as modules of torch do that add their rows to tables
            monkeypatch.setitem(sys.modules, "framelift_test_late", types.ModuleType("framelift_test_late"))
            registry["late"] = 1
        return gm

    def f(x):
        return x + len(registry)

    monkeypatch.setattr(framelift.config, "strict", True)
    compiled = framelift.compile(f, backend=importing)
    x = torch.zeros(2)
    for _ in range(3):
        assert torch.equal(compiled(x), x + 1)
    assert len(compiles) == 2

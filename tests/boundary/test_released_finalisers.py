"""Objects of the outside that captured code lets go of: their finalisers run at their moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Noting:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("end")


class Box:
    held: Any = None


def _clear(box: Box) -> None:
    box.held.clear()


def _pop(box: Box) -> None:
    box.held.pop()


def _replace(box: Box) -> None:
    box.held[0] = None


def _attribute(box: Box) -> None:
    box.held = []


def _delete(box: Box) -> None:
    del box.held


def _grow(box: Box) -> None:
    box.held.append(None)


ACTS = [_clear, _pop, _replace, _attribute, _delete, _grow]
#: how the object is held
HOLDERS: dict[str, Callable[[Noting], Any]] = {
    "bare": lambda one: one,
    "in a list": lambda one: [one],
    "in a dictionary": lambda one: {"it": one},
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("breaks", [False, True])
def test_the_order_of_what_happens(act: Callable[[Box], None], holder: str, breaks: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> list[str]:
        log: list[str] = []
        box = Box()

        def fn(x: torch.Tensor) -> torch.Tensor:
            log.append("before")
            act(box)
            log.append("after")
            if breaks:
                framelift.graph_break()
            log.append("late")
            return x + 1

        compiled = compile(fn)
        for _ in range(3):
            box.held = [HOLDERS[holder](Noting(log))]
            assert compiled(torch.zeros(1)).item() == 1
            log.append("returned")
        box.held = None
        return log

    assert run(lambda fn: framelift.compile(fn, backend="eager")) == run(lambda fn: fn)

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


class Slotted:
    __slots__ = ("held",)


def _clear(box: Any) -> None:
    box.held.clear()


def _pop(box: Any) -> None:
    box.held.pop()


def _replace(box: Any) -> None:
    box.held[0] = None


def _attribute(box: Any) -> None:
    box.held = []


def _delete(box: Any) -> None:
    del box.held


def _grow(box: Any) -> None:
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
@pytest.mark.parametrize("owner", [Box, Slotted])
@pytest.mark.parametrize("breaks", [False, True])
def test_the_order_of_what_happens(act: Callable[[Any], None], holder: str, owner: Any, breaks: bool) -> None:
    def run(compile: Callable[[Any], Any]) -> list[str]:
        log: list[str] = []
        box = owner()

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


def test_what_is_put_back_is_not_let_go_of() -> None:
    log: list[str] = []
    box = Box()
    box.held = Noting(log)

    def fn(x: torch.Tensor) -> torch.Tensor:
        before = box.held
        box.held = None
        y = x + 1
        box.held = before
        return y

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.zeros(1)).item() == 1 and not log

"""What a frame's surroundings are on both sides of a break: exceptions being handled, iterators, settings of torch, counts of rehearsals."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings

import pytest
import torch
from support import check

import framelift


@framelift.disable
def off(value):
    return value


@framelift.disable
def fails(text):
    raise ValueError(text)


def broken(f, *args, **kwargs):
    """Captured in parts, equal to plain Python."""
    return check(f, *args, **{"graphs": None, "breaks": None, "calls": 3, **kwargs})


def test_nothing_is_handled_behind_a_handler_with_a_break() -> None:
    def f(x, log):
        try:
            fails("inside")
        except ValueError:
            off(0)
            x = x + 1
            log.append(sys.exc_info()[0])
        log.append(sys.exc_info()[0])
        return x * 2

    broken(f, torch.ones(2), [])


def test_objects_die_with_the_exception_of_a_failed_operation(monkeypatch) -> None:
    """Nothing that capturing raised keeps the frame's objects: their finalisers run when they would."""
    class Thing:
        def __del__(self):
            log.append("dead")

    @framelift.compile(backend="eager")
    def f(x, y):
        held = Thing()
        off(0)
        x = torch.stack([x, y])
        off(1)
        return held, x

    log = []
    monkeypatch.setattr(gc, "collect", lambda *args: 0)
    gc.disable()
    try:
        for number in range(2):
            with contextlib.suppress(RuntimeError):
                f(torch.ones(2), torch.ones(3))
            assert log == ["dead"] * (number + 1)
    finally:
        gc.enable()


def test_a_graph_that_fails_where_plain_python_does_not_is_told_once(monkeypatch) -> None:
    def failing(gm, inputs):
        def run(*args):
            raise RuntimeError("not today")
        return run

    def f(x):
        return x + 1

    monkeypatch.setattr(framelift.config, "strict", False)
    compiled = framelift.compile(f, backend=failing)
    with pytest.warns(UserWarning, match="failed where plain Python does not: RuntimeError: not today"):
        assert compiled(torch.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(torch.ones(1)).item() == 2
    monkeypatch.setattr(framelift.config, "strict", True)
    with pytest.raises(framelift.exc.InternalError, match="not today"):
        compiled(torch.ones(1))


def test_an_error_of_the_program_is_told_by_plain_python_alone() -> None:
    def f(x, i):
        return x[i] + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IndexError):
            framelift.compile(f, backend="eager")(torch.ones(2), torch.tensor([5]))


def test_an_entry_that_is_not_for_a_call_leaves_torch_alone() -> None:
    """The number of rounds is symbolic: that another one begins is found inside the entry, whose grad mode is then not the call's."""
    def f(x, log, n):
        while True:
            n += 1
            if n > 6:
                break
            with torch.no_grad():
                off(n)
            off(0)
        off(n)
        log.append(torch.is_grad_enabled())
        return x * n

    broken(f, torch.ones(2, requires_grad=True), [], 0)

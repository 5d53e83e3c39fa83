"""What breaks cost as a function grows: code that goes on holds what may still run, and nothing else."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import framelift
from framelift.bytecode.flow import Flow
from framelift.bytecode.resume import Point, Stop, resume_code, stops_after
from framelift.surface import compiling
from support import check


@framelift.disable
def off(value: Any) -> Any:
    return value


def _row(count: int) -> Any:
    lines = [f"    x = x + {i}\n    off({i})\n" for i in range(count)]
    space: dict[str, Any] = {"off": off}
    exec("def row(x):\n" + "".join(lines) + "    return x\n", space)
    return space["row"]


def _points(code: Any) -> list[tuple[Flow, Point]]:
    flow = Flow(code)
    stores = [flow.ops[i + 1].unit for i, op in enumerate(flow.ops) if op.name == "STORE_FAST"]
    return [(flow, Point(unit, (), ("x",), False)) for unit in stores]


def test_code_that_goes_on_holds_what_may_still_run() -> None:
    points = _points(_row(40).__code__)
    rest = [len(resume_code(*point).code.co_code) for point in points]
    assert rest == sorted(rest, reverse=True) and rest[-1] < rest[0] / 10
    steps = [len(resume_code(flow, point, stops_after(flow, point.unit)).code.co_code) for flow, point in points]
    assert max(steps) < 200


def loop_behind(x: Any) -> Any:
    off(0)
    total = 0
    for k in range(3):
        try:
            if k == 1:
                continue
            total += off(k)
            x = x + total
        finally:
            off(1)
    else:
        x = x * 2
    return x, total


def raised_before(x: Any) -> Any:
    """The place an exception came from lies before what may still run."""
    try:
        raise ValueError(off(1))
    except ValueError as error:
        off(2)
        line = error.__traceback__.tb_lineno
        return x + 1, line, [k for k in off([1, 2])]


def jumped_over(x: Any) -> Any:
    if off(x.shape[0]) > 5:
        unseen = 1
        x = x + unseen
    else:
        x = x - 1
    off(2)
    try:
        return unseen
    except UnboundLocalError as error:
        return x, str(error)


@pytest.mark.parametrize("program", [_row(6), loop_behind, raised_before, jumped_over], ids=lambda p: p.__name__)
def test_parts_do_as_the_whole(program: Any) -> None:
    check(program, torch.ones(2), graphs=None, breaks=None)


def test_what_is_remembered_of_a_break_goes_with_the_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that runs a broken instruction is shared by all callables; how each goes on is not kept for long."""
    monkeypatch.setattr(compiling, "_compiled", weakref.WeakSet())  # a recorded run keeps all callables from then on
    stops: list[Any] = []

    def function(x: Any, bound_before: bool) -> Any:
        if bound_before:
            y = x + 1  # bound or not at the break: two conditions
        off(x)
        return (y if bound_before else x) * 2

    x = torch.ones(2)
    for _ in range(5):
        captured = framelift.compile(function, backend="eager")
        assert torch.equal(captured(x, True), function(x, True))
        assert torch.equal(captured(x, False), function(x, False))
        stops = [one for one in gc.get_objects() if type(one) is Stop and "bound_before" in one.names and one.steps]
        assert stops and all(len(stop.steps) <= 2 for stop in stops)
        del captured
        gc.collect()

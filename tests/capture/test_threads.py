"""Four threads compile and call at the same time: each its own callable, and all one shared callable."""

from __future__ import annotations

import queue
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import framelift
from framelift import config
from framelift.python.arrays import answers

THREADS, CALLS = 4, 25


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run `work(number)` in every thread, started together; raise the first failure."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001  carried to the main thread
            failures.append(error)

    threads = [threading.Thread(target=body, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_own_callables() -> None:
    def work(number: int) -> None:
        torch.manual_seed(number)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        compiled = framelift.compile(model, backend="eager", fullgraph=True)
        for call in range(CALLS):
            x = torch.rand(1 + call % 3, 3)
            assert torch.equal(compiled(x), model(x))

    in_threads(work)


def test_shared_callable() -> None:
    state = {"scale": 3}

    def f(x, n):
        return x * state["scale"] + n

    compiled = framelift.compile(f, backend="eager", fullgraph=True)

    def work(number: int) -> None:
        for call in range(CALLS):
            x = torch.full((1 + (number + call) % 4,), float(call))
            assert torch.equal(compiled(x, number), f(x, number))

    in_threads(work)


def test_plain_threads_are_not_watched_while_another_captures() -> None:
    """A rehearsal in one thread must not record, delay or redirect what other threads do."""

    class Counter:
        value = 0

    def slow(x, layers):
        for _ in range(200):
            for scale in layers:
                x = x * scale + 1
        return x

    compiled = framelift.compile(slow, backend="eager", fullgraph=True)

    def work(number: int) -> None:
        if number == 0:
            for _ in range(3):
                framelift.reset()
                assert torch.equal(compiled(torch.ones(2), [0.5, 0.25]), slow(torch.ones(2), [0.5, 0.25]))
            return
        mine: Any = type("Mine", (Counter,), {})()
        for call in range(400):
            mine.value += 1
            x = torch.full((2,), float(call))
            assert (x + 1).device.type == "cpu" and float((x + 1)[0]) == call + 1
        assert mine.value == 400

    in_threads(work)


def test_grad_mode_is_per_thread() -> None:
    def f(x):
        return x * 2, torch.is_grad_enabled()

    compiled = framelift.compile(f, backend="eager", fullgraph=True)

    def work(number: int) -> None:
        x = torch.ones(2, requires_grad=True)
        with torch.set_grad_enabled(number % 2 == 0):
            for _ in range(CALLS):
                out, enabled = compiled(x)
                assert enabled == (number % 2 == 0) == out.requires_grad

    in_threads(work)


def test_one_capture_per_signature() -> None:
    """Eight threads meet four shapes of one model at once.

    Whoever waits for a capture of the same signature uses it.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    inputs = [torch.rand(size, 3) for size in (2, 3, 5, 7)]
    want = [model(x).detach() for x in inputs]
    for _ in range(3):
        compiled = framelift.compile(model, backend="eager", fullgraph=True, dynamic=False)
        framelift.reset()

        def work(number: int) -> None:
            for call in range(12):
                which = (number + call) % len(inputs)
                assert torch.equal(compiled(inputs[which]), want[which])

        in_threads(work, 8)
        assert framelift.stats()["captures"] == len(inputs) == len(compiled._compiled.entries)


@pytest.mark.parametrize("times, captures", [(1, 1), (100, 0)])
def test_another_thread_changes_what_was_read(times: int, captures: int) -> None:
    box = types.SimpleNamespace(name="x")
    end = threading.Event()
    changes = queue.SimpleQueue[bool]()
    changed = threading.Event()

    def change() -> None:
        while changes.get():
            box.name += "x"
            changed.set()
        end.wait(30)

    def backend(graph_module: Any, _inputs: Any) -> Any:
        if len(box.name) <= times:
            changed.clear()
            changes.put(True)
            changed.wait(30)
        return graph_module.forward

    other = threading.Thread(target=change)
    other.start()
    try:
        compiled = framelift.compile(lambda x: x * len(box.name), backend=backend)
        for _ in range(3):
            got = compiled(torch.ones(2))
            assert torch.equal(got, torch.ones(2) * len(box.name))
        assert len(compiled.entries) == captures
    finally:
        changes.put(False)
        end.set()
        other.join()


def test_a_guard_that_never_holds_is_a_defect_whoever_else_runs(monkeypatch) -> None:
    def only_while_captured(_numpy: Any) -> bool:
        return sys._getframe(1).f_code is answers.note_errors.__code__

    monkeypatch.setattr(answers, "_warns_at_most", only_while_captured)
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    compiled = framelift.compile(lambda x: numpy.sin(x.numpy()), backend="eager")
    try:
        with config.patch(strict=True), pytest.raises(framelift.exc.InternalError, match="do not hold for the very"):
            compiled(torch.ones(2))
        with config.patch(strict=False), pytest.warns(UserWarning, match="do not hold for the very call"):
            assert compiled(torch.zeros(3)).tolist() == [0, 0, 0]
    finally:
        end.set()
        other.join()


def test_another_thread_traces_with_fx() -> None:
    tracing, end = threading.Event(), threading.Event()

    def traced(x: torch.Tensor) -> torch.Tensor:
        tracing.set()
        end.wait(30)
        return x + 1

    other = threading.Thread(target=torch.fx.symbolic_trace, args=(traced,))
    other.start()
    try:
        assert tracing.wait(30)
        compiled = framelift.compile(lambda x: x * 2, backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert len(compiled.entries) == 1
    finally:
        end.set()
        other.join()

"""A program for test_resting_evaluator.py: whether framelift's evaluator is installed while its own code runs.

In a process of its own: once somebody else has taken the evaluator, framelift never takes its own off.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import signal
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import framelift
from framelift import _core
from framelift.rehearsal.session import Rehearsal

FACTOR = 2
OFFSET = 3
_load_global = Rehearsal.load_global
_lines = itertools.count(1000)


def one_global(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR


def in_a_thread(function: Callable[..., Any], *args: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


def looks(program: Callable[..., Any], look: Callable[[], Any] = lambda: _core.hook_users()[1]) -> list[Any]:
    """What `look` gives at each look-up of a global of one capture: framelift's own code."""
    seen: list[Any] = []
    again = types.FunctionType(program.__code__.replace(co_firstlineno=next(_lines)), globals())  # never captured

    def looking(self: Rehearsal, *args: Any) -> Any:
        seen.append(look())
        return _load_global(self, *args)

    Rehearsal.load_global = looking  # type: ignore[method-assign]
    try:
        result = framelift.compile(again, backend="eager")(torch.ones(2))
    finally:
        Rehearsal.load_global = _load_global  # type: ignore[method-assign]
    assert torch.equal(result, program(torch.ones(2)))
    return seen


def rests_in_own_code() -> None:
    assert looks(one_global) == [False]
    assert _core.hook_users() == (0, False)


def not_where_python_code_handles_a_signal() -> None:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    assert looks(one_global) == [True]
    assert in_a_thread(looks, one_global) == [False]  # handlers run in the main thread alone
    signal.signal(signal.SIGUSR1, before)
    assert looks(one_global) == [False]


def not_after_an_import_that_sets_a_handler() -> None:
    text = "import signal\nbefore = signal.signal(signal.SIGUSR1, lambda number, frame: None)\n"

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x * FACTOR
        import sets_a_handler  # type: ignore[import-not-found]  # noqa: F401

        return x + OFFSET

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sets_a_handler.py").write_text(text)
        sys.path.insert(0, folder)
        assert looks(f) == [False, True]
        sys.path.remove(folder)
    signal.signal(signal.SIGUSR1, sys.modules.pop("sets_a_handler").before)


def not_while_another_thread_needs_it() -> None:
    waits, ends = threading.Event(), threading.Event()

    @torch.compiler.disable
    def wait() -> None:
        waits.set()
        ends.wait(60)

    def waiting(x: torch.Tensor) -> torch.Tensor:
        wait()
        return x + 1

    thread = threading.Thread(target=framelift.compile(waiting, backend="eager"), args=(torch.ones(2),))
    thread.start()
    assert waits.wait(60)
    assert looks(one_global) == [True]
    ends.set()
    thread.join()
    assert looks(one_global) == [False]


def another_thread_that_needs_it_wakes_it() -> None:
    captured: list[Any] = []
    calls: list[Any] = []

    def below(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def left_out(x: torch.Tensor) -> torch.Tensor:
        return below(x + 1)

    def backend(graph_module: Any, inputs: Any) -> Any:
        captured.append(graph_module)

        def run(*values: Any) -> Any:
            calls.append(graph_module)
            return graph_module.forward(*values)

        return run

    left_out = torch.compiler.disable(left_out, recursive=False)

    def other(x: torch.Tensor) -> torch.Tensor:
        return left_out(x)

    compiled = framelift.compile(other, backend=backend)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert captured  # `below`, whose frame the hook met
    calls.clear()

    def call_it() -> tuple[Any, ...]:
        before = _core.hook_users()
        result = in_a_thread(compiled, torch.ones(2))
        return before, result.tolist(), _core.hook_users()

    assert looks(one_global, call_it) == [((1, False), [4.0, 4.0], (1, True))]
    assert calls == captured and _core.hook_users() == (0, False)


CASES = (
    rests_in_own_code,
    not_where_python_code_handles_a_signal,
    not_after_an_import_that_sets_a_handler,
    not_while_another_thread_needs_it,
    another_thread_that_needs_it_wakes_it,
)

if __name__ == "__main__":
    for case in CASES:
        case()
        print(case.__name__, flush=True)

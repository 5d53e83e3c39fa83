"""Signals, exceptions that other threads ask for, and forks, which may strike at any moment of a capture or a run."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import itertools
import logging
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import framelift
from framelift.graph.metadata.cache import shared_cache
from framelift.rehearsal.session import Rehearsal


class Struck(Exception):
    """What a handler raises; a class that programs catch by `except Exception`."""


SEEN: list[int] = []


def handler(signum: int, frame: Any) -> None:
    SEEN.append(signum)
    raise Struck


def spread_handler(*args: Any) -> None:
    handler(*args)


class Handler:
    def __call__(self, signum: int, frame: Any) -> None:
        handler(signum, frame)

    def method(self, signum: int, frame: Any) -> None:
        handler(signum, frame)


HANDLERS = {
    "function": handler,
    "spread": spread_handler,
    "object": Handler(),
    "method": Handler().method,
    "partial": functools.partial(lambda extra, signum, frame: handler(signum, frame), 1),
    "lambda": lambda n, f: handler(n, f),
}


@contextlib.contextmanager
def handled(by: Any, number: int = signal.SIGALRM) -> Iterator[None]:
    before = signal.signal(number, by)
    SEEN.clear()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(number, before)


def long_loop(x: torch.Tensor) -> torch.Tensor:
    n = 0
    for i in range(100_000_000):
        n += i
    return x * n


def long_loop_caught(x: torch.Tensor) -> torch.Tensor:
    n = 0
    try:
        for i in range(100_000_000):
            n += i
    except Exception:  # noqa: BLE001
        return x * 0
    except BaseException:  # noqa: BLE001
        return x - 1
    return x * n


def callee(i: int) -> int:
    return i + 1


def long_calls(x: torch.Tensor) -> torch.Tensor:
    n = 0
    while True:
        try:
            n += callee(n)
            n %= 1000
        finally:
            n += 1


def long_graph(x: torch.Tensor) -> torch.Tensor:
    for _ in range(1_000_000):
        x = x + 1
    return x


LONG = [long_loop, long_loop_caught, long_calls, long_graph]


def assert_clean() -> None:
    users, _ = framelift._core.hook_users()
    assert users == 0 and framelift._core.get_mode() == 0
    assert sys.getrecursionlimit() == LIMIT
    x = torch.ones(2)
    assert torch.equal(framelift.compile(lambda x: x * 2 + 1, backend="eager", fullgraph=True)(x), x * 2 + 1)


LIMIT = sys.getrecursionlimit()


@pytest.mark.parametrize("by", HANDLERS)
@pytest.mark.parametrize("program", LONG)
def test_a_handler_ends_a_rehearsal(program: Any, by: str) -> None:
    with handled(HANDLERS[by]):
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        with pytest.raises(Struck):
            framelift.compile(program, backend="eager")(torch.ones(2))
        assert SEEN == [signal.SIGALRM]  # once, and for real
    assert_clean()


@pytest.mark.parametrize("program", LONG)
def test_keyboard_interrupts_end_a_rehearsal(program: Any) -> None:
    with handled(signal.default_int_handler):
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        with pytest.raises(KeyboardInterrupt):
            framelift.compile(program, backend="eager")(torch.ones(2))
    assert_clean()


@pytest.mark.parametrize("kind", [Struck, KeyboardInterrupt, SystemExit, TimeoutError])
@pytest.mark.parametrize("program", LONG)
def test_an_exception_of_another_thread_ends_a_rehearsal(program: Any, kind: type[BaseException]) -> None:
    target = threading.get_ident()

    def strike() -> None:
        time.sleep(0.15)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(kind))

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(kind):
        framelift.compile(program, backend="eager")(torch.ones(2))
    thread.join()
    assert_clean()


def test_a_handler_that_returns_runs_for_real() -> None:
    ticks: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        n = 0
        for i in range(3_000_00):
            n += i % 7
        return x * n

    with handled(lambda *_: ticks.append(1)):
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        got = compiled(torch.ones(2))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert torch.equal(got, f(torch.ones(2)))
        count = len(ticks)
        compiled(torch.ones(2))
        assert len(ticks) == count > 0  # no handler's effect is part of the program


def test_exceptions_of_c_functions_without_words_are_the_programs() -> None:
    def f(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        walk = iter(items)
        total = 0
        while True:
            try:
                total += next(walk)
            except StopIteration:
                return x * total

    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2), [1, 2, 3]), torch.full((2,), 6.0))


@pytest.mark.parametrize("wrap", [False, True])
def test_a_handler_strikes_a_backend(wrap: bool) -> None:
    def backend(graph_module: Any, inputs: Any) -> Any:
        try:
            signal.raise_signal(signal.SIGALRM)
        except Exception as error:
            if wrap:
                raise RuntimeError("compiling failed") from error
            raise
        return graph_module

    with handled(handler):
        with pytest.raises(Struck):
            framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        assert SEEN == [signal.SIGALRM]
    assert_clean()


@pytest.mark.parametrize("writes", [False, True])
def test_a_handler_strikes_an_entry(writes: bool) -> None:
    strikes = [False]

    def backend(graph_module: Any, inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            if strikes[0]:
                signal.raise_signal(signal.SIGALRM)
            return graph_module(*inputs)

        return run

    log: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        if writes:
            x.add_(1)
        return x * 2

    compiled = framelift.compile(f, backend=backend)
    compiled(torch.ones(2))
    with handled(handler):
        strikes[0] = True
        x = torch.ones(2)
        with pytest.raises(Struck):
            compiled(x)
        assert SEEN == [signal.SIGALRM] and len(log) == 1
        strikes[0] = False
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0 if writes else 2.0))
    assert_clean()


class Stop(BaseException):
    """What a handler raises while a compiler of torch's may run.

    That one catches every Exception in places of its own.
    """


@pytest.mark.usefixtures("plain_guards")  # whoever verifies them takes a strike for a guard that fails
def test_random_strikes_are_never_lost_or_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any moment of many captures: the exception leaves the call.

    Python itself drops one that strikes a finaliser or a logging handler.
    """
    lost, dropped, at, kinds = [], [], [], (Stop, Struck, Struck)

    def strike(signum: int, frame: Any) -> None:
        SEEN.append(signum)
        at[:] = traceback.format_stack(frame)[-9:]
        raise kinds[n % 3]

    monkeypatch.setattr(logging.getLogger("torch"), "propagate", False)  # to pytest's handlers
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    monkeypatch.setattr(sys, "unraisablehook", lambda found: dropped.append(found.exc_type in kinds))
    with handled(strike):
        for n in range(60):
            SEEN.clear()
            dropped.clear()
            got = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (n % 30 + 1))
                framelift.compile(
                    lambda x, k: torch.nn.functional.gelu(x * k) + x.sum(),
                    backend="aot_eager" if n % 3 == 0 else "eager",
                )(torch.ones(3), n)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except (Stop, Struck) as error:
                got = error
            signal.setitimer(signal.ITIMER_REAL, 0)
            if len(SEEN) != (got is not None) and not any(dropped):
                lost.append("".join(at))
    assert not lost, lost[0]
    assert_clean()


def test_signals_wait_for_aot_autograd_but_not_for_its_compilers() -> None:
    """Its modes may end the process when an exception strikes them, and a compiler may work for minutes."""
    strikes, passed = [False, False], []

    def compiler(graph_module: Any, inputs: Any) -> Any:
        if strikes[1]:
            _thread.interrupt_main(signal.SIGALRM)
            passed.append("compiler")
        return graph_module.forward

    def decomposed(x: torch.Tensor) -> torch.Tensor:
        if strikes[0]:
            _thread.interrupt_main(signal.SIGALRM)
            passed.append("AOTAutograd")
        return x * 0.5

    backend = framelift.aot_autograd(fw_compiler=compiler, decompositions={torch.ops.aten.sinc.default: decomposed})
    for strikes[:] in [True, False], [False, True], [False, False]:
        passed.clear()
        with handled(handler):
            if any(strikes):
                with pytest.raises(Struck):
                    framelift.compile(lambda x: torch.sinc(x), backend=backend)(torch.ones(3))
                assert len(SEEN) == 1 and bool(passed) is strikes[0]
            else:
                got = framelift.compile(lambda x: torch.sinc(x), backend=backend)(torch.ones(3))
                assert torch.equal(got, torch.full((3,), 0.5))
    assert_clean()


def test_a_context_manager_struck_as_it_begins_is_gone_with_the_call() -> None:
    """Its generator would put state of torch's back when the exception is let go."""
    waiting: list[Any] = []

    @contextlib.contextmanager
    def struck() -> Any:
        return map(_thread.interrupt_main, [signal.SIGALRM])  # C code: Python looks for signals in `__enter__`

    def noted(manager: Any) -> Any:
        waiting.append(weakref.ref(manager))
        return manager

    def backend(graph_module: Any, inputs: Any) -> Any:
        with noted(struck()):
            return graph_module.forward

    with handled(handler), pytest.raises(Struck) as caught:
        framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert caught.value.__traceback__ is not None and [one() for one in waiting] == [None]
    assert_clean()


@pytest.mark.parametrize("by", ["handler", "thread"])
@pytest.mark.parametrize("breaks", [False, True])
def test_what_strikes_when_a_rehearsal_is_just_over_leaves_the_call(
    by: str, breaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a rehearsal is C code.

    What arrives meanwhile is raised when framelift's own code goes on, not by the program.
    """
    finish = Rehearsal.finish
    asked: Any = {
        "handler": lambda: map(_thread.interrupt_main, [signal.SIGALRM]),
        "thread": lambda: map(
            ctypes.pythonapi.PyThreadState_SetAsyncExc,
            [ctypes.c_ulong(threading.get_ident())],
            [ctypes.py_object(Struck)],
        ),
    }

    def striking(session: Any) -> Any:  # C code all the way: no instruction of Python's between that and the end
        after = filter(SEEN.append, asked[by]())
        return functools.partial(
            functools.reduce, lambda result, finish: finish(result), itertools.chain([finish.__get__(session)], after)
        )

    monkeypatch.setattr(Rehearsal, "finish", property(striking))

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if breaks:
            framelift.graph_break()
        return y + 1

    compiled = framelift.compile(program, backend="eager")
    with handled(handler):
        with pytest.raises(Struck):
            compiled(torch.ones(2))
        assert SEEN
    monkeypatch.undo()
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert framelift.stats()["captures"] <= 2
    assert_clean()


# ---- forks ----


def in_child(work: Callable[[], None], seconds: float = 60) -> None:
    """Run `work` in a forked child; it must end well and in time."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001
            import traceback

            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def captures() -> None:
    x = torch.ones(2)
    before = framelift._core.hook_users()[0]  # an eager part around this holds it
    assert torch.equal(framelift.compile(lambda x: x * 3 + 1, backend="eager", fullgraph=True)(x), x * 3 + 1)
    assert framelift._core.hook_users()[0] == before


def slow_callee(x: torch.Tensor) -> torch.Tensor:
    n = 0
    for i in range(60_000):
        n += callee(i) % 3
    return x * n


@pytest.mark.parametrize("by", ["function", "interrupt"])
@pytest.mark.parametrize("turn", [1, 2, 3, 8, 40])
def test_signals_wait_while_torch_runs_over_fakes(by: str, turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in place of the end of torch's fake mode ends the process, or leaves the mode there."""
    leave, count = FakeTensorMode.__exit__, itertools.count(1)

    def struck(self: Any, *error: Any) -> None:
        if next(count) == turn:
            signal.raise_signal(signal.SIGALRM)
        leave(self, *error)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(y, torch.tensor([0, 1]))
        if torch.version.cuda is None:  # the threads of autograd that such a build has do not survive a fork
            loss.backward()
            loss = y.grad
        return loss.detach(), torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear")

    def work() -> None:
        framelift.reset()
        shared_cache().clear()
        monkeypatch.setattr(FakeTensorMode, "__exit__", struck)
        compiled, x = framelift.compile(program, backend="eager"), torch.ones(2, 2)
        with handled(HANDLERS.get(by, signal.default_int_handler)), pytest.raises((Struck, KeyboardInterrupt)):
            compiled(x)
        assert next(count) > turn
        assert not _get_current_dispatch_mode_stack()
        for got, wanted in zip(compiled(x), program(x), strict=True):
            assert torch.equal(got, wanted)
        assert_clean()

    in_child(work)


@pytest.mark.parametrize("moment", ["rehearsal", "backend", "entry"])
def test_fork_while_another_thread_is_at_work(moment: str) -> None:
    import gc
    import warnings

    thresholds, filters = gc.get_threshold(), list(warnings.filters)
    reached, go_on = threading.Event(), threading.Event()

    def backend(graph_module: Any, inputs: Any) -> Any:
        if moment == "backend":
            reached.set()
            go_on.wait(60)

        def run(*inputs: Any) -> Any:
            if moment == "entry":
                reached.set()
                go_on.wait(60)
            return graph_module(*inputs)

        return run

    program = slow_callee if moment == "rehearsal" else (lambda x: x + torch.rand(2) * 0)
    shared = framelift.compile(program, backend=backend)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            shared(torch.ones(2))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    if moment == "rehearsal":
        while framelift._core.hook_users()[0] == 0 and thread.is_alive():
            time.sleep(0.001)
    else:
        reached.wait(60)

    def child() -> None:
        go_on.set()
        captures()
        assert gc.get_threshold() == thresholds and list(warnings.filters) == filters
        if moment != "rehearsal":
            shared(torch.ones(2))

    in_child(child)
    go_on.set()
    thread.join()
    assert not failed
    captures()


def test_fork_inside_a_backend_and_inside_an_eager_part() -> None:
    def backend(graph_module: Any, inputs: Any) -> Any:
        in_child(captures)
        return graph_module

    framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2))

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        in_child(captures)
        return x * 2

    assert torch.equal(framelift.compile(f, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))
    captures()


def test_fork_in_a_signal_handler() -> None:
    def forks(signum: int, frame: Any) -> None:
        SEEN.append(signum)
        in_child(lambda: None)

    with handled(forks):
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert torch.equal(framelift.compile(slow_callee, backend="eager")(torch.ones(2)), slow_callee(torch.ones(2)))
        signal.setitimer(signal.ITIMER_REAL, 0)
    captures()

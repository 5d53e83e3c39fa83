"""What may strike a compiled call: exceptions, signals, forks, resets, collections and other threads."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import framelift

__all__ = ["FAULTS", "Fault"]


class Failure(Exception):
    """Of the program, of a handler or of another thread."""


class BaseFailure(BaseException):
    """The same that no `except Exception` catches."""


class Strike:
    """One fault while one call is under way."""

    kind: type[BaseException] | None = None
    text = ""
    is_child = False

    def __init__(self, act: Callable[[Strike], None]) -> None:
        self.act = act
        self.thread: threading.Thread | None = None
        self.results: list[Any] = []
        self.child = 0

    def __call__(self) -> None:
        self.act(self)

    def afterwards(self, expected: Any, same: Callable[[Any, Any], bool]) -> str | None:
        """What went wrong in another thread."""
        if self.thread is None:
            return None
        self.thread.join(60)
        if self.thread.is_alive():
            return "the other thread hangs"
        got = self.results[0]
        return None if same(got, expected) else f"the other thread got {got!r}, expected {expected}"

    def child_failed(self) -> str | None:
        """In the parent: what became of the child."""
        if not self.child:
            return None
        _, status = os.waitpid(self.child, 0)
        return None if status == 0 else f"the child ended with status {status}"


@dataclass(frozen=True)
class Fault:
    """`act(strike)` does it."""

    name: str
    act: Callable[[Strike], None]
    kind: type[BaseException] | None = None
    text: str = ""
    number: int = 0  # of the signal whose handler raises
    handler: Any = None
    # only while the program itself runs: compilers and fake kernels that raise are reported otherwise
    in_program: bool = False

    @property
    def raises(self) -> bool:
        return self.kind is not None

    def strikes(self, point: Any) -> bool:
        """Whether it is to be tried there."""
        return not self.in_program or point.effects

    @contextlib.contextmanager
    def prepared(self, compiled: Any, program: Any) -> Iterator[Strike]:
        """While it lasts handlers are installed."""
        strike = Strike(self.act)
        strike.kind, strike.text = self.kind, self.text
        strike.compiled, strike.program = compiled, program  # type: ignore[attr-defined]
        before = signal.signal(self.number, self.handler) if self.number else None
        try:
            yield strike
        finally:
            if self.number:
                signal.signal(self.number, before)


def _raise(strike: Strike) -> None:
    raise Failure("of the program")


def _handler(signum: int, frame: Any) -> None:
    raise Failure("of the handler")


def _base_handler(signum: int, frame: Any) -> None:
    raise BaseFailure("of the handler")


def _ask_for(kind: type[BaseException]) -> Callable[[Strike], None]:
    def act(strike: Strike) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(kind))

    return act


def _fork(strike: Strike) -> None:
    child = os.fork()
    strike.is_child, strike.child = child == 0, child


def _other_thread(strike: Strike) -> None:
    def work() -> None:
        try:
            torch.manual_seed(0)
            # type: ignore[attr-defined]
            strike.results.append(strike.program.call(strike.compiled, strike.program.args()))
        except BaseException as error:  # noqa: BLE001
            strike.results.append(error)

    strike.thread = threading.Thread(target=work)
    strike.thread.start()
    strike.thread.join(0.02)  # longer where it may go on; it waits where this thread captures


FAULTS = (
    Fault("exception", _raise, Failure, "of the program", in_program=True),
    Fault(
        "handler", lambda _: signal.raise_signal(signal.SIGUSR1), Failure, "of the handler", signal.SIGUSR1, _handler
    ),
    Fault(
        "base handler",
        lambda _: signal.raise_signal(signal.SIGUSR1),
        BaseFailure,
        "of the handler",
        signal.SIGUSR1,
        _base_handler,
    ),
    Fault(
        "interrupt",
        lambda _: signal.raise_signal(signal.SIGINT),
        KeyboardInterrupt,
        "",
        signal.SIGINT,
        signal.default_int_handler,
    ),
    Fault("asynchronous", _ask_for(Failure), Failure),
    Fault("asynchronous base", _ask_for(BaseFailure), BaseFailure),
    Fault("fork", _fork),
    Fault("reset", lambda _: framelift.reset()),
    Fault("collection", lambda _: gc.collect()),
    Fault("thread", _other_thread),
)

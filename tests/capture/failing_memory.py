"""Programs captured and called while one C++ allocation of the core fails.

`python failing_memory.py PROGRAM [FIRST [STEP]]`.

native/fail_new.cpp must be preloaded.  Each run must raise MemoryError or give plain Python's result; the next calls
give that result, and no hook is left behind.  Prints what was wrong, and one line of counts.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ["FRAMELIFT_STRICT"] = "0"  # a capture that ran out of memory may be left to plain Python, with a warning

import torch  # noqa: E402

import framelift  # noqa: E402
from framelift import _core  # noqa: E402

SCALE = 3


class Counter:
    """An external object that captured code reads and writes."""

    def __init__(self) -> None:
        self.calls, self.names = 0, ["a", "b"]

    @property
    def double(self) -> int:
        return 2 * self.calls


class Net(torch.nn.Module):
    """A module with parameters, a buffer and a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor, flag: bool = True, **more: Any) -> torch.Tensor:
        y = self.linear(x).relu() * self.scale
        return y + more["bias"] if flag else y


def plain(x: torch.Tensor) -> Any:
    return x * SCALE + 1, {"k": [x.shape[0], *sorted({"b", "a"})]}


def objects(x: torch.Tensor, counter: Counter) -> Any:
    counter.calls += 1
    return x + counter.double, [n + "!" for n in counter.names], (lambda k: k + len(counter.names))(1)


def broken(x: torch.Tensor) -> Any:
    total = 0
    for i in range(2):
        total = total + i
        print("", end="")  # a graph break in a loop
        x = x + total
    return x


def generators(x: torch.Tensor) -> Any:
    class Inside:
        def __init__(self, k: int) -> None:
            self.k = k

    def numbers() -> Iterator[int]:
        for k in range(3):
            yield Inside(k).k

    return x * sum(numbers()), f"{x.dim()} dims", max([1, 2], key=lambda k: -k)


def failing(x: torch.Tensor) -> Any:
    try:
        return x.view(7)
    except RuntimeError as error:
        return type(error).__name__, x + 1


def call_module(module: torch.nn.Module) -> Any:
    return module(torch.ones(2, 4), bias=torch.ones(4)).detach()


PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], Callable[[Callable[..., Any]], Any]]]] = {
    "plain": lambda: (plain, lambda f: f(torch.ones(3))),
    "objects": lambda: (objects, lambda f: f(torch.ones(3), Counter())),
    "broken": lambda: (broken, lambda f: f(torch.ones(3))),
    "generators": lambda: (generators, lambda f: f(torch.ones(3))),
    "failing": lambda: (failing, lambda f: f(torch.ones(3))),
    "module": lambda: (torch.manual_seed(0) and Net(), call_module),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)


class FailNew:
    """The n-th C++ allocation of the core fails."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0])
        self.fired = False

    @contextlib.contextmanager
    def at(self, n: int) -> Iterator[None]:
        self.library.fail_new(n)
        try:
            yield
        finally:
            self.fired = self.library.fail_new(0) == 0


def run(program: str, fail: FailNew, n: int) -> tuple[str, bool]:
    """What came of the call in which allocation `n` failed, and whether it did."""
    function, call = PROGRAMS[program]()
    expected = call(function)
    framelift.reset()
    compiled = framelift.compile(function, backend="eager")
    caught: BaseException | None = None
    with fail.at(n):
        try:
            result = call(compiled)
        except BaseException as error:
            caught = error
    fired = fail.fired
    outcome = "right"
    if caught is not None:
        outcome = "MemoryError" if isinstance(caught, MemoryError) else f"{type(caught).__name__}: {str(caught)[:300]}"
    elif not same(result, expected):
        outcome = f"wrong result {result}"
    hook, mode = _core.hook_users(), _core.get_mode()
    if hook != (0, False) or mode != 0:
        outcome = f"left behind: hook {hook}, mode {mode}"
    for turn in range(2):
        again = call(compiled)
        if not same(again, expected):
            outcome = f"wrong result of call {turn + 2}: {again}"
    return outcome, fired


def main() -> None:
    program, *numbers = sys.argv[1:]
    first, step = [*map(int, numbers), 1, 1][:2] if numbers else (1, 1)
    fail = FailNew()
    function, call = PROGRAMS[program]()
    call(framelift.compile(function, backend="eager"))  # tables that are filled once
    gc.freeze()  # collections leave out torch
    outcomes: collections.Counter[str] = collections.Counter()
    for n in range(first, first + 20000 * step, step):
        print(n, file=sys.stderr, flush=True)
        outcome, fired = run(program, fail, n)
        if not fired:
            break
        outcomes[outcome] += 1
        if outcome not in ("right", "MemoryError"):
            print(f"allocation {n}: {outcome}")
    print(f"{program}: {sum(outcomes.values())} failures, {outcomes['MemoryError']} as MemoryError")


if __name__ == "__main__":
    main()

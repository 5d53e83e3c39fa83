"""Where the time of a capture and of a call goes, for each of the benchmarks' models.

    python benchmarks/profile_parts.py [--rounds 5] [--functions 12] [--only NAME]

Capture: the phases that framelift times itself, and CPU samples (one per millisecond) by the part of the system that
was running: a package of framelift, torch, or the program itself (with what the native core does on its account).
Call: CPU time with a backend that answers with stored outputs, of the guards alone, and of the backend alone.
"""

from __future__ import annotations

import argparse
import collections
import functools
import signal
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import PROGRAMS, Program, cpu_seconds, median, reset, stored_outputs

import framelift
from framelift.report.gather import entries_of

_SOURCE = str(Path(framelift.__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
_CALLS = 300


class Samples:
    """CPU samples of a block: by part, and by function of framelift."""

    def __init__(self) -> None:
        self.parts: collections.Counter[str] = collections.Counter()
        self.functions: collections.Counter[str] = collections.Counter()

    def take(self, _signal: int, frame: types.FrameType | None) -> None:
        if frame is None:
            return
        part, function = _part(frame.f_code.co_filename), f"{_short(frame.f_code.co_filename)} {frame.f_code.co_name}"
        self.parts[part] += 1
        self.functions[function] += 1

    def of(self, run: Callable[[], Any]) -> None:
        before = signal.signal(signal.SIGPROF, self.take)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        try:
            run()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


def _part(file: str) -> str:
    if file.startswith(_SOURCE):
        rest = file[len(_SOURCE) + 1 :]
        return rest.partition("/")[0] if "/" in rest else "framelift"
    return "torch" if file.startswith(_TORCH) else "program"


def _short(file: str) -> str:
    for root in (_SOURCE, str(Path(_TORCH).parent)):
        file = file.removeprefix(f"{root}/")
    return file


def profile_capture(program: Program, rounds: int) -> tuple[dict[str, float], Samples]:
    """Milliseconds of each phase (the median), and samples of all captures; the first capture is not counted."""
    phases: dict[str, list[float]] = {}
    samples = Samples()
    for number in range(rounds + 1):
        reset()
        target, kwargs = program.make()
        compiled = framelift.compile(target, backend="eager")
        with torch.no_grad():
            call = functools.partial(compiled, **kwargs)
            samples.of(call) if number else call()
        if number:
            spent: collections.Counter[str] = collections.Counter()
            for entry in entries_of(getattr(compiled, "_compiled", compiled)):
                for phase in entry.info.phases:
                    spent[phase.name] += phase.seconds * 1e3
            for name, milliseconds in spent.items():
                phases.setdefault(name, []).append(milliseconds)
    return {name: median(seen) for name, seen in phases.items()}, samples


def profile_call(benchmark: Program) -> dict[str, float]:
    """Microseconds of a call: whole, of its guards, of the backend's function, and of what is left."""
    reset()
    target, kwargs = benchmark.make()
    inner: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def backend(graph_module: Any, inputs: Any) -> Callable[..., Any]:
        run = stored_outputs(graph_module, inputs)

        def first(*values: Any) -> Any:
            inner.append((run, values))
            return run(*values)

        return lambda *values: (run if inner else first)(*values)

    def many(call: Callable[[], Any]) -> float:
        def batch() -> None:
            for _ in range(_CALLS):
                call()

        batch()
        return min(cpu_seconds(batch) for _ in range(5)) / _CALLS * 1e6

    compiled = framelift.compile(target, backend=backend)
    native = getattr(compiled, "_compiled", compiled)
    driver, locals_of_calls = native.miss, []

    def miss(native: Any, values: Any) -> Any:
        locals_of_calls.append((*values,))  # the core empties its own tuple
        return driver(native, values)

    native.miss = miss
    with torch.no_grad():
        compiled(**kwargs)
        native.miss = driver
        whole = many(lambda: compiled(**kwargs))
        program = entries_of(native)[0].program
        assert program.check(locals_of_calls[0]) is None
        guards = many(lambda: program.check(locals_of_calls[0]))
        run, values = inner[0]
        alone = many(lambda: run(*values))
    return {"whole": whole, "guards": guards, "backend": alone, "entry and lookup": whole - guards - alone}


def show(program: Program, rounds: int, functions: int) -> None:
    phases, samples = profile_capture(program, rounds)
    total = sum(samples.parts.values()) or 1
    print(f"{program.name}\n  capture, ms:  " + "  ".join(f"{name} {value:.1f}" for name, value in phases.items()))
    print("  by part:      " + "  ".join(f"{name} {n / total:.0%}" for name, n in samples.parts.most_common(12)))
    for name, n in samples.functions.most_common(functions):
        print(f"     {n / total:6.1%}  {name}")
    print("  call, us:     " + "  ".join(f"{name} {value:.2f}" for name, value in profile_call(program).items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--functions", type=int, default=12, help="how many functions are listed")
    parser.add_argument("--only", nargs="*", help="programs whose name contains one of these")
    options = parser.parse_args()
    for program in PROGRAMS:
        if not options.only or any(text in program.name for text in options.only):
            show(program, options.rounds, options.functions)


if __name__ == "__main__":
    main()

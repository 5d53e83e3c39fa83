"""Threads that call, compile, reset, collect and fork at the same time, with TorchDynamo in some of them.

Every result is compared with eager.

    python tests/capture/stress_threads.py [--seconds 600] [--threads 8] [--seed 0]

TorchDynamo runs in the first half.  In the second graphs also go through AOTAutograd: torch.fx has one flag for the
process that says that it traces, and TorchDynamo's callables raise in every thread while it is set. A watchdog prints
all stacks and ends the process where nothing goes on for a minute.  The exit status is 1 where a result was wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch

import framelift

HANGS = 60  # seconds without a finished call


class Box:
    """An object that programs read."""

    def __init__(self, scale: int) -> None:
        self.scale = scale


def plain(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.relu(x * k) + x.sum()


def inner(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + n


def looped(x: torch.Tensor, k: int) -> torch.Tensor:
    for i in range(k % 5 + 1):
        x = inner(x, i)
    return x


def broken(x: torch.Tensor, k: int) -> torch.Tensor:
    y = x * k
    framelift.graph_break()
    return y + 1


def generated(x: torch.Tensor, k: int) -> torch.Tensor:
    return sum((x * i for i in range(3)), x * k)


def with_object(x: torch.Tensor, k: int) -> torch.Tensor:
    box = Box(k)
    return x * box.scale


def regions(x: torch.Tensor, k: int) -> torch.Tensor:
    with torch.no_grad():
        y = x * k
    return y + 1


def trained(x: torch.Tensor, k: int) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    (leaf.sin() * k).sum().backward()
    return leaf.grad


PROGRAMS: tuple[Callable[[torch.Tensor, int], torch.Tensor], ...] = (
    plain,
    looped,
    broken,
    generated,
    with_object,
    regions,
    trained,
)


class Stress:
    """The threads, what they share, and what went wrong."""

    def __init__(self, seed: int, end: float) -> None:
        self.seed, self.end, self.middle = seed, end, (time.monotonic() + end) / 2
        self.calls, self.children, self.finished = 0, 0, time.monotonic()
        self.wrong: list[str] = []
        self.shared = {program: framelift.compile(program, backend="eager") for program in PROGRAMS}
        self.dynamo = {program: torch.compile(program, backend="eager") for program in (plain, looped, regions)}

    def check(self, program: Any, called: Any, rng: random.Random) -> None:
        x, k = torch.arange(float(rng.randint(2, 6))), rng.randint(1, 6)
        want = program(x, k)
        got = called(x, k)
        if not torch.equal(want, got):
            self.wrong.append(f"{program.__name__}({x}, {k}) gives {got}, eager {want}")
        self.calls += 1
        self.finished = time.monotonic()

    def fork(self, rng: random.Random) -> None:
        try:
            child = os.fork()
        except RuntimeError:  # the filelock library refuses one while another thread takes a lock
            return
        if child == 0:
            self.in_child(rng)
        _, status = os.waitpid(child, 0)
        self.children += 1
        if status:
            self.wrong.append(f"a child ended with status {status}")

    def in_child(self, rng: random.Random) -> None:
        """Ends the process: its thread is the only one that is left."""
        faulthandler.dump_traceback_later(30, exit=True)
        before, program = len(self.wrong), rng.choice(PROGRAMS)
        try:
            program(torch.arange(3.0), 2)
        except RuntimeError:  # builds with CUDA refuse gradients in a child whose parent has calculated some
            os._exit(0)
        try:
            self.check(program, framelift.compile(program, backend="eager"), rng)
            self.check(program, self.shared[program], rng)
        except BaseException:  # noqa: BLE001  any exception is wrong here
            self.wrong.append(traceback.format_exc())
        for text in self.wrong[before:]:
            print(f"in a child: {text}", flush=True)
        os._exit(len(self.wrong) > before)

    def work(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        while time.monotonic() < self.end and not self.wrong:
            try:
                what = rng.random()
                program = rng.choice(PROGRAMS)
                if what < 0.5:
                    self.check(program, self.shared[program], rng)
                elif what < 0.7:
                    backend = rng.choice(("eager", "aot_eager")) if time.monotonic() > self.middle else "eager"
                    self.check(program, framelift.compile(program, backend=backend), rng)
                elif what < 0.95:
                    program = rng.choice(tuple(self.dynamo))
                    beside = number % 2 and time.monotonic() < self.middle
                    self.check(program, self.dynamo[program] if beside else self.shared[program], rng)
                elif what < 0.96:
                    framelift.reset()
                elif what < 0.98:
                    gc.collect()
                elif what < 0.985:
                    self.fork(rng)
            except BaseException:  # noqa: BLE001  any exception is wrong here
                self.wrong.append(traceback.format_exc())

    def watch(self) -> None:
        while time.monotonic() < self.end + HANGS:
            time.sleep(1)
            if time.monotonic() - self.finished > HANGS:
                print("nothing goes on; all stacks:", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    faulthandler.enable()
    sys.setswitchinterval(5e-4)
    stress = Stress(options.seed, time.monotonic() + options.seconds)
    threading.Thread(target=stress.watch, daemon=True).start()
    threads = [threading.Thread(target=stress.work, args=(number,)) for number in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in stress.wrong:
        print(text)
    print(
        f"{stress.calls} calls in {options.threads} threads, {stress.children} children, {len(stress.wrong)} wrong",
        flush=True,
    )
    return 1 if stress.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

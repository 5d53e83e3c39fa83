"""Law programs with kept captures in between: one process captures a program and keeps what it captured on disk,
another one changes the world of the program and runs it with what was kept.

The programs are those of the other generators, by seed.  The second process makes the same changes, but in another
order, some of them never, and some before the first call: so it asks for captures in worlds that the first one never
had.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import framelift
from portrait import forget

from .breaks import generate_breaks
from .facts import generate_facts
from .generate import Program, generate
from .more import generate_more
from .runner import Verdict, judge, run_world

__all__ = ["altered", "compile_kept", "generate_kept", "judge_kept", "write"]

_GENERATORS = (generate, generate_facts, generate_more, generate, generate_facts, generate_breaks)


def generate_kept(seed: int, size: int) -> Program:
    """A program for both processes."""
    return _GENERATORS[seed % len(_GENERATORS)](seed, size)


def altered(program: Program) -> Program:
    """The program as the second process runs it."""
    rng = random.Random(f"altered {program.seed}")
    changes = [change for change in program.changes[1:] if rng.random() < 0.8]
    if rng.random() < 0.7:
        rng.shuffle(changes)
    first = changes.pop() if changes and rng.random() < 0.4 else ()
    return dataclasses.replace(program, changes=(first, *changes, (), first))


def compile_kept(program: Program, backend: str) -> Callable[[Any], Any]:
    """How the function of a program is compiled: half of them without dynamic shapes, since then more of what was kept
    is for one value, and is asked for with others."""
    return lambda function: framelift.compile(function, backend=backend, dynamic=False if program.seed % 2 else None)


def judge_kept(program: Program) -> Verdict:
    """Both processes in one, as far as that goes: to look at a program, and to make it small."""
    compile = compile_kept(program, "eager")
    with tempfile.TemporaryDirectory() as folder, framelift.config.patch(cache=True, cache_dir=folder, strict=True):
        write(program, compile)
        return judge(altered(program), compile)


def write(program: Program, compile: Callable[[Any], Any]) -> dict[str, int]:
    """The first process: capture the program, in the worlds of all its calls; and why captures of it are not kept."""
    framelift.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run_world(program, compile)
        found: dict[str, int] = framelift.stats()["not_kept"]
        return found
    finally:
        framelift.reset()
        forget()

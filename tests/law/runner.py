"""Runs one program in two worlds, eagerly and captured, and compares every call.

Result, exception, effects, surroundings.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import linecache
import random
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

import framelift
from framelift import _core
from portrait import difference, forget
from support import Counts, Outcome, counts, run_call, same_outcome, without_frames

from .generate import Program
from .steer import MODES, around, clean_tensors, modes_left, put_on_tensors, without_modes

__all__ = ["Verdict", "judge", "run_world"]

WORLD = "law_world"


@dataclass(frozen=True)
class Verdict:
    """`failure` is None or the first difference in words; the numbers say how much was captured."""

    program: Program
    failure: str | None
    call: int
    before: Counts
    after: Counts

    @property
    def graphs(self) -> int:
        return self.after.graphs - self.before.graphs

    @property
    def captures(self) -> int:
        return self.after.captures - self.before.captures

    @property
    def loaded(self) -> int:
        return self.after.loaded - self.before.loaded

    @property
    def breaks(self) -> dict[str, int]:
        return {k: v - self.before.breaks.get(k, 0) for k, v in self.after.breaks.items()}


def judge(program: Program, compile: Callable[[Any], Any] | None = None) -> Verdict:
    """Run `program` eagerly, then with `compile` (framelift with the eager backend unless given), and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run_world(program, lambda f: f)
        framelift.reset()
        before = counts()
        # half of the programs have their entries run as native steps from the second call on
        runs = _core.steps_after(1 if program.seed % 2 else 8)
        try:
            actual = run_world(program, compile or (lambda f: framelift.compile(f, backend="eager")))
            after = counts()
        finally:
            _core.steps_after(runs)
            framelift.reset()
            forget()
    for number, (want, got) in enumerate(zip(expected, actual)):
        found = _difference(want, got)
        if found:
            return Verdict(program, f"call {number}: {found}", number, before, after)
    return Verdict(program, None, -1, before, after)


def own(value: Any) -> bool:
    """Does a class, function or module belong to the program's world."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "side"
    return getattr(value, "__module__", None) == WORLD


def run_world(program: Program, wrap: Callable[[Any], Any]) -> list[Outcome]:
    """The calls of a program in a world of their own, its function wrapped."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.default_generator.manual_seed(program.seed)
    RemovableHandle.next_id = 0  # hooks are numbered per process, not per world
    # a name in <> would say: typed or made, not worth a look when its caller breaks
    name = f"/programs/law_{program.seed}.py"
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(True), name)
    module = sys.modules[WORLD] = types.ModuleType(WORLD)
    world = vars(module)
    exec(_code(program.source, name), world)
    target = wrap(world["TARGET"])
    seen = []
    gc.collect(1)
    gc.disable()  # objects die when nobody holds them, in both worlds at the same moments
    try:
        for number, change in enumerate(program.changes):
            torch.default_generator.manual_seed(program.seed + number)
            random.seed(program.seed + number)
            for statement in change:
                with contextlib.suppress(Exception):
                    exec(compile(statement, "<change>", "exec", dont_inherit=True), world)
            with MODES.get(str(world.get("MODE")), contextlib.nullcontext)():
                chain: list[tuple[str, ...]] = []
                seen.append(
                    run_call(
                        lambda: _call(target, world, program, chain),
                        lambda: (_settled(world), chain, put_on_tensors(), modes_left()),
                        own=own,
                    )[0]
                )
    finally:
        gc.enable()
        clean_tensors()
        without_modes()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        linecache.cache.pop(name, None)
        del sys.modules[WORLD]
        world.clear()  # the other world has hooks of the same numbers
    return seen


@functools.lru_cache(maxsize=2)  # both worlds, once
def _code(source: str, name: str) -> types.CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def _call(target: Any, world: dict[str, Any], program: Program, chain: list[tuple[str, ...]]) -> Any:
    """Call the program; `chain` gets the exceptions that led to the one it ends with."""
    try:
        with around(world):
            result = target(*world["ARGS"], **world["KWARGS"])
    except Exception as error:
        before = error.__cause__ or error.__context__
        while before is not None and len(chain) < 9:
            chain.append((type(before).__name__, str(before)))
            before = before.__cause__ or before.__context__
        raise
    if program.backward:
        found: list[torch.Tensor] = []
        _tensors(result, found, 0)
        if found:
            torch.stack([t.sum().double() for t in found]).sum().backward()
    return result


def _tensors(value: Any, found: list[torch.Tensor], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            found.append(value)
    elif isinstance(value, (list, tuple)) and depth < 4:
        for v in value:
            _tensors(v, found, depth + 1)
    elif type(value) is dict and depth < 4:
        _tensors(list(value.values()), found, depth)


_WAITING = (_ for _ in ())
_NOWHERE = types.TracebackType(None, _WAITING.gi_frame, 0, 1)  # a frame that holds nothing and was called by none


def _settled(world: dict[str, Any]) -> dict[str, Any]:
    """The state of a world without what only garbage holds.

    An exception that passes a context manager made of a generator holds itself through the frames it passed, with all
    that their callers' frames hold; when that ends is the collector's affair.  An exception of the world that was
    raised and caught holds the frames it passed, and their callers', until it is raised again; captured code has none.
    It is still one that was raised.
    """
    for value in list(world.values()):
        if issubclass(type(value), BaseException):  # a weak proxy would answer for its object
            without_frames(value, _NOWHERE)
    gc.collect(0)  # the collector was off: all that the call made is young
    return _state(world)


def _state(world: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in world.items() if not k.startswith("__")}


def _difference(want: Outcome, got: Outcome) -> str | None:
    if not same_outcome(want, got):
        return f"eager {want.kind} {want.detail}, captured {got.kind} {got.detail}"
    found = difference(want.after, got.after)
    if found:
        return f"state differs: {found}"
    for a, b in zip(want.surroundings, got.surroundings):
        if a != b:
            return f"{a[0]} differs: eager {a[1:]}, captured {b[1:]}"[:400]
    return None

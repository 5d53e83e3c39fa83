"""The fault matrix: something strikes a compiled call at a boundary between two of its phases.

A cell is a *fault* (faults.py: an exception, a signal, a fork, a reset, a collection, another thread), a *point*
(points.py: a function of framelift, before it runs or after, or a place of the program's own code) and one of the
programs (programs.py) that reaches the point. Afterwards an exception must have left the call as itself, the state of
torch and of Python must be what it was, nothing of the program's changed, and the next calls must equal eager ones.  A
cell whose point no program reaches is a difference.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch

import framelift
from framelift.graph.metadata.cache import shared_cache

from ..cell import Cell
from .faults import FAULTS, Fault
from .points import POINTS, Point
from .programs import PROGRAMS, Program
from .state import state_now

__all__ = ["cells", "find"]


def cells() -> list[Cell]:
    """Every fault at every point where it may strike; the programs take turns."""
    return [find(f"{point.name}/{fault.name}") for point in POINTS for fault in FAULTS if fault.strikes(point)]


def find(name: str) -> Cell:
    """The cell of a name."""
    place, _, kind = name.rpartition("/")
    point = next(point for point in POINTS if point.name == place)
    fault = next(fault for fault in FAULTS if fault.name == kind)
    return Cell(name, lambda: difference(point, fault))


def difference(point: Point, fault: Fault) -> str | None:
    """What the first program that reaches the point does otherwise than without the fault."""
    first = POINTS.index(point) * 5 + FAULTS.index(fault) * 3
    programs = [PROGRAMS[(first + i) % len(PROGRAMS)] for i in range(len(PROGRAMS))]
    for program in programs:
        if point.where is not None and point.where not in program.points or program.draws and fault.name == "thread":
            continue  # two threads share the random numbers
        framelift.reset()
        shared_cache().clear()  # else operations of cells before this one are known
        reached, found = _run(program, point, fault)
        if reached:
            return None if found is None else f"{program.name}: {found}"
    return "no program reaches this point"


def _run(program: Program, point: Point, fault: Fault) -> tuple[bool, str | None]:
    """Whether the point was reached, and what was different."""
    function = program.make()
    expected = _outcome(function, program)
    compiled = program.compile(program.make(), program.backend)
    if point.calls_before:
        _outcome(compiled, program)
    args = program.args()
    kept = copy.deepcopy(args) if program.copies else None
    torch.manual_seed(0)
    before = state_now()
    caught: BaseException | None = None
    result: Any = None
    with fault.prepared(compiled, program) as strike, point.reached(strike) as struck:
        try:
            result = program.call(compiled, args)
        except BaseException as error:  # noqa: BLE001  which one is looked at below
            caught = error
    if not struck.done:
        return False, None
    beside = strike.afterwards(expected, _same)  # also waits for it
    found = _judged(fault, strike, caught, result, expected)
    after = state_now()
    if found is None:
        allowed = {"random numbers"} if caught is None else set()
        if strike.is_child:
            allowed.add("Python's random numbers")  # Python seeds them in a child
        found = next(
            (
                f"{name} is {str(after[name])[:300]}, was {str(before[name])[:300]}"
                for name in before
                if after[name] != before[name] and name not in allowed
            ),
            None,
        )
    if found is None and caught is not None and kept is not None and not point.effects and not _same(kept, args):
        found = f"the arguments were changed: {args}"
    if strike.is_child:
        _end_child(found, function, compiled, program, expected)
    found = found or beside or _next_calls(compiled, program, expected)
    return True, found or strike.child_failed()


def _end_child(found: str | None, function: Any, compiled: Any, program: Program, expected: Any) -> None:
    """The child's verdict is its exit status.  Builds of torch with CUDA refuse gradients in a child whose parent has
    calculated some; there eager mode raises as well, and nothing is said about the compiled call.
    """
    status = 1
    try:
        try:
            if not _same(_outcome(function, program), expected):
                found = found or "eager mode gives something else"
        except RuntimeError:
            status = 0
        else:
            status = 1 if found or _next_calls(compiled, program, expected) else 0
    finally:
        os._exit(status)


def _judged(fault: Fault, strike: Any, caught: BaseException | None, result: Any, expected: Any) -> str | None:
    """Whether what came out of the struck call is what had to."""
    if not fault.raises:
        if caught is not None:
            return f"{type(caught).__name__}: {caught}"
        return None if _same(result, expected) else f"gives {result}, eager {expected}"
    if caught is None:
        return "the exception was lost"
    if type(caught) is not strike.kind or str(caught) != strike.text:
        return f"another exception: {type(caught).__name__}: {caught}"
    if caught.__context__ is not None:
        return f"has a context: {caught.__context__!r}"
    return None


def _next_calls(compiled: Any, program: Program, expected: Any) -> str | None:
    for number in range(2):
        got = _outcome(compiled, program)
        if not _same(got, expected):
            return f"call {number + 1} after it gives {got}, eager {expected}"
    captures = framelift.stats()["captures"]
    _outcome(compiled, program)
    now = framelift.stats()["captures"]
    return None if now == captures else f"{now - captures} captures in a later call"


def _outcome(function: Any, program: Program) -> Any:
    torch.manual_seed(0)
    return program.call(function, program.args())


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.shape == b.shape and bool(torch.allclose(a, b))
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)

"""The silence matrix: what code of the program sees of its own use, with plain Python and captured.

A cell is a *kind* of object whose class logs each special method, attribute read and torch call that reaches it, and a
*use*: a small program over one such object and a tensor.  Both are source text and are run twice in fresh modules: with
plain Python and compiled.  On each of the calls (first, repeated, with another shape, repeated) the two logs, and the
results or exceptions, must be equal: framelift itself reaches no code of the program, and nothing that plain Python
reaches is left out, doubled or out of order.

The kinds are in kinds.py, the uses in uses.py; `python tests/matrices/run.py --only silence` runs all cells.
"""

from __future__ import annotations

import itertools
import linecache
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

import framelift

from ..cell import Cell
from .kinds import KINDS, PRELUDE, Kind
from .overrides import override_uses
from .uses import USES

__all__ = ["cells", "difference"]


def cells() -> list[Cell]:
    """Every use of every kind it applies to."""
    return [
        Cell(f"{kind.name}/{use}", lambda kind=kind, body=body: difference(kind, body))
        for kind in KINDS
        for use, body in (override_uses() if kind.family == "watched" else USES[kind.family]).items()
    ]


def source_of(kind: Kind, body: str) -> str:
    """The module of one cell."""
    return (
        f"{PRELUDE}\n{kind.source}\n\ndef program(x, o):\n"
        + "\n".join(f"    {line}" for line in body.splitlines())
        + "\n"
    )


#: sizes of the tensor in each call: captured, twice from the cache, captured again, and again
SIZES = (3, 3, 3, 5, 5)


def difference(kind: Kind, body: str) -> str | None:
    """What the captured run logs or gives otherwise than plain Python."""
    source = source_of(kind, body)
    want = _calls(source, lambda function: function)
    framelift.reset()
    got = _calls(source, lambda function: framelift.compile(function, backend="eager"))
    for number, (a, b) in enumerate(zip(want, got)):
        for what, expected, found in zip(("log", "result", "warnings"), a, b):
            if expected != found:
                return f"call {number + 1}, {what}:\n  eager    {expected}\n  captured {found}"
    return None


_numbers = itertools.count()


def _calls(source: str, wrap: Callable[[Any], Any]) -> list[tuple[list[str], str, list[str]]]:
    name = f"silence_cell_{next(_numbers)}"
    module = types.ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    program = wrap(module.program)
    found = []
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # once in a process would be in the first of two runs
    try:
        with module.around():
            made = module.make()
            for size in SIZES:
                x = torch.arange(float(size))
                module.LOG.clear()
                torch.manual_seed(0)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    result = _outcome(program, x, made)
                log = list(module.LOG)
                found.append((log, result, [str(one.message)[:300] for one in caught]))
    finally:
        torch.set_warn_always(before)
        linecache.cache.pop(filename, None)
    return found


def _outcome(program: Any, x: torch.Tensor, made: Any) -> str:
    try:
        result = program(x, made)
    except Exception as error:  # noqa: BLE001  any exception of the program is an outcome
        return f"{type(error).__name__}: {error!s:.300}"
    return _shown(result)


def _shown(value: Any) -> str:
    """A result in words, without asking objects of the program for theirs."""
    if type(value) in (tuple, list):
        return f"{type(value).__name__}({', '.join(map(_shown, value))})"
    if issubclass(type(value), torch.Tensor):
        with torch._C.DisableTorchFunction():
            plain = torch._C.TensorBase.detach(value)
            if plain.layout is torch.strided:
                plain = torch._C.TensorBase.as_subclass(plain, torch.Tensor)
            return f"{type(value).__name__}{plain.tolist() if plain.layout is torch.strided else plain.layout}"
    if type(value) in (int, float, str, bool, type(None), dict, torch.Size):
        return repr(value)
    return f"<{type(value).__name__}>"

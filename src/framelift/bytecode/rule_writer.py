"""The writer: what a rule uses to build the replacement of one instruction.  One writer serves one code object.

It hands out the bytes that load probes, names and other constants, and collects the constants a twin needs besides the
original's.  Loads are made on first use and remembered, since a function uses the same few again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from opcode import opmap
from types import CodeType
from typing import Any

from .decode import local_name
from .encode import instruction

_LOAD_CONST = opmap["LOAD_CONST"]


class _Mark:
    """A constant that says something about its code.  It is shown alike in all processes: hashes of code need that."""

    def __init__(self, says: str) -> None:
        self._says = says

    def __repr__(self) -> str:
        return f"<{self._says}>"


#: among the constants of code that was made to resume a frame
RESUMES = _Mark("resumes a frame")


class _Loads(dict[Any, bytes]):
    """key -> bytes that push what `value_of(key)` is; the value becomes a constant on the first use."""

    __slots__ = ("consts", "value_of")

    def __init__(self, consts: list[Any], value_of: Callable[[Any], Any]) -> None:
        self.consts = consts
        self.value_of = value_of

    def __missing__(self, key: Any) -> bytes:
        load = self[key] = instruction(_LOAD_CONST, len(self.consts))
        self.consts.append(self.value_of(key))
        return load


class Writer:
    """Loads of probes (`probe["call"]`), of names by index (`name[3]`) and of constants (`const[7]`)."""

    __slots__ = ("calls", "code", "const", "consts", "first_free", "first_outer", "name", "op_cell", "probe")

    def __init__(self, code: CodeType, probes: Mapping[str, Any], calls: tuple[bytes, ...], load_cell: int) -> None:
        self.code = code
        self.calls = calls
        self.op_cell = load_cell
        self.consts = consts = list(code.co_consts)
        self.probe = _Loads(consts, probes.__getitem__)
        self.name = _Loads(consts, code.co_names.__getitem__)
        self.const = _Loads(consts, _itself)
        self.first_free = _first_free(code) if code.co_freevars else 0
        # Code that resumes a frame has that frame's cells, which are external to whoever captures it.
        self.first_outer = len(code.co_varnames) if code.co_cellvars and RESUMES in code.co_consts else self.first_free

    def index(self, value: Any) -> int:
        """The number of a constant, for the few opcodes that name one other than by loading it."""
        self.consts.append(value)
        return len(self.consts) - 1

    def cell(self, index: int) -> bytes:
        """Push the cell of a variable, not what it holds."""
        return instruction(self.op_cell, index)

    def variable(self, index: int) -> bytes:
        """Push the name of a free variable, or in a tuple that of one of the function's own."""
        return self.const[
            self.code.co_freevars[index - self.first_free]
            if index >= self.first_free
            else (local_name(self.code, index),)
        ]


def _itself(value: Any) -> Any:
    return value


def _first_free(code: CodeType) -> int:
    # Arguments that are cells share one slot; a free variable never shares, even with a local of its own name (which
    # inlined comprehensions can make).
    local = code.co_varnames
    return len(local) + sum(name not in local for name in code.co_cellvars)

"""Bytecode as a list of instructions, for checking and showing.  It is too slow for the rewriter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dis import _parse_exception_table  # type: ignore[attr-defined]  # private in typeshed
from opcode import EXTENDED_ARG, HAVE_ARGUMENT, hasfree, hasjrel, haslocal, opmap, opname, stack_effect
from types import CodeType
from typing import Any, NamedTuple

#: opcodes about a frame's own variables, and those about cells (CPython 3.14 lists LOAD_DEREF among the first)
LOCALS = frozenset(op for op in haslocal if "_FAST" in opname[op])
CELLS = frozenset(hasfree) | frozenset(haslocal) - LOCALS
_LOCAL = re.compile("(?:LOAD|STORE|DELETE)_FAST(?:_BORROW)?")
#: an opcode about two local variables -> the names of the two that it stands for
PAIRS: dict[int, tuple[str, str]] = {
    number: (parts[0], parts[1]) for name, number in opmap.items() if len(parts := _LOCAL.findall(name)) == 2
}


class Instruction(NamedTuple):
    """One instruction in code units: `start` is its first prefix, `end` is after its caches."""

    start: int
    op: int
    arg: int
    end: int

    @property
    def name(self) -> str:
        """The opcode's name."""
        return opname[self.op]


def instructions(raw: bytes, start: int = 0, end: int | None = None) -> Iterator[Instruction]:
    """The instructions of a piece of `co_code`, given in code units."""
    unit, last = start, len(raw) // 2 if end is None else end
    while unit < last:
        first, arg = unit, raw[2 * unit + 1]
        while raw[2 * unit] == EXTENDED_ARG:
            unit += 1
            arg = arg << 8 | raw[2 * unit + 1]
        op = raw[2 * unit]
        unit += 1
        while unit < last and raw[2 * unit] == 0:
            unit += 1
        yield Instruction(first, op, arg, unit)


def local_name(code: CodeType, place: int) -> str:
    """The variable at a place of a frame."""
    name: str = code._varname_from_oparg(place)  # type: ignore[attr-defined]  # private in typeshed
    return name


def locals_of(op: int, arg: int) -> list[tuple[str, int]]:
    """The local variables that an instruction is about, in its order: the name of the opcode for one, and its place."""
    parts = PAIRS.get(op)
    return [(opname[op], arg)] if parts is None else [(parts[0], arg >> 4), (parts[1], arg & 15)]


def jump_target(instruction: Instruction) -> int | None:
    """The code unit an instruction may jump to."""
    if instruction.op not in hasjrel:
        return None
    return instruction.end + (-instruction.arg if "BACKWARD" in instruction.name else instruction.arg)


def effect(instruction: Instruction, jump: bool = False) -> int:
    """By how much an instruction changes the depth of the stack."""
    return stack_effect(instruction.op, instruction.arg if instruction.op >= HAVE_ARGUMENT else None, jump=jump)


def handlers(code: CodeType) -> list[tuple[int, int, int, int, bool] | None]:
    """For each code unit its handler: (range's start, end, handler, depth, lasti) in code units, read by `dis`."""
    found: list[Any] = [None] * (len(code.co_code) // 2)
    for entry in _parse_exception_table(code):
        first, last = entry.start // 2, entry.end // 2
        found[first:last] = [(first, last, entry.target // 2, entry.depth, entry.lasti)] * (last - first)
    return found

"""Code objects as lists that can be edited: for the few code objects that a break needs, where the rewriter's speed does not matter.

Jumps and handlers point at instructions, so instructions can be put in anywhere; `assemble` finds the numbers again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from opcode import opmap, opname
from types import CodeType
from typing import Any

from .decode import instructions, jump_target
from .encode import instruction, width
from .handlers import decode, encode

__all__ = ["Op", "assemble", "disassemble", "from_bytes", "make"]

Position = tuple[int | None, int | None, int | None, int | None]
_NOWHERE: Position = (None, None, None, None)
_ONE_LINE_LONG, _NO_COLUMN, _NONE = 14, 13, 15   # kinds of location entries


@dataclass(slots=True, eq=False)
class Op:
    """One instruction: `unit` is where it was before any edit, -1 for one that was put in."""

    op: int
    arg: int
    caches: int
    position: Position = _NOWHERE
    target: Op | None = None
    handler: tuple[Op, int] | None = None    # first instruction of the handler, depth << 1 | lasti
    unit: int = -1

    @property
    def name(self) -> str:
        """The opcode's name."""
        return opname[self.op]


def disassemble(code: CodeType) -> list[Op]:
    """The instructions of a code object, jumps and handlers resolved."""
    positions = list(code.co_positions())
    found: list[Op] = []
    at: dict[int, Op] = {}
    jumps: list[tuple[Op, int]] = []
    for each in instructions(code.co_code):
        prefixes = width(each.arg) if each.arg > 0xFF else 0
        first = each.start
        size = each.end - each.start
        made = Op(each.op, each.arg, size - 1 - max(prefixes, _prefixes(code.co_code, first)), positions[each.end - 1], unit=first)
        found.append(made)
        at[first] = made
        target = jump_target(each)
        if target is not None:
            jumps.append((made, target))
    for made, target in jumps:
        made.target = at[target]
    for start, end, target, depth in decode(code.co_exceptiontable):
        for made in found:
            if start <= made.unit < end:
                made.handler = (at[target], depth)
    return found


def _prefixes(raw: bytes, unit: int) -> int:
    count, extended = 0, opmap["EXTENDED_ARG"]
    while raw[2 * (unit + count)] == extended:
        count += 1
    return count


def make(name: str, arg: int = 0, *, target: Op | None = None, like: Op | None = None) -> Op:
    """A new instruction without caches, at the place of `like`; it has no handler."""
    return Op(opmap[name], arg, 0, like.position if like else _NOWHERE, target)


def from_bytes(raw: bytes, like: Op | None = None) -> list[Op]:
    """New instructions from their bytes."""
    return [Op(each.op, each.arg, each.end - each.start - 1 - (width(each.arg) if each.arg > 0xFF else 0),
               like.position if like else _NOWHERE) for each in instructions(raw)]


def assemble(code: CodeType, ops: list[Op], **changes: Any) -> tuple[CodeType, dict[int, int]]:
    """A code object with these instructions, and for each original unit the new one."""
    places, args = _place(ops)
    raw = b"".join(instruction(op.op, arg) + bytes(2 * op.caches) for op, arg in zip(ops, args))
    sizes = [1 + width(arg) + op.caches for op, arg in zip(ops, args)]
    made = code.replace(co_code=raw, co_linetable=_locations(ops, sizes, code.co_firstlineno),
                        co_exceptiontable=encode(_ranges(ops, sizes, places)), **changes)
    return made, {op.unit: places[id(op)] for op in ops if op.unit >= 0}


def _place(ops: list[Op]) -> tuple[dict[int, int], list[int]]:
    """The unit of each instruction, and the arguments: jumps grow until nothing moves any more."""
    args = [op.arg if op.target is None else 0 for op in ops]
    while True:
        places: dict[int, int] = {}
        ends: list[int] = []
        unit = 0
        for op, arg in zip(ops, args):
            places[id(op)] = unit
            unit += 1 + width(arg) + op.caches
            ends.append(unit)
        wanted = [abs(places[id(op.target)] - end) if op.target is not None else arg for op, arg, end in zip(ops, args, ends)]
        if wanted == args:
            return places, args
        # A jump may only grow: otherwise two of them could change places for ever.
        args = [max(new, old) if op.target is not None and width(new) < width(old) else new for op, new, old in zip(ops, wanted, args)]
        if all(width(new) == width(old) for new, old in zip(wanted, args)):
            args = wanted


def _ranges(ops: list[Op], sizes: list[int], places: dict[int, int]) -> Iterable[tuple[int, int, int, int]]:
    start = unit = 0
    current: tuple[Op, int] | None = None
    for op, size in zip(ops, sizes):
        if op.handler is not current and (op.handler is None or current is None or op.handler[0] is not current[0] or op.handler[1] != current[1]):
            if current is not None:
                yield start, unit, places[id(current[0])], current[1]
            start, current = unit, op.handler
        unit += size
    if current is not None:
        yield start, unit, places[id(current[0])], current[1]


def _locations(ops: list[Op], sizes: list[int], line: int) -> bytes:
    out = bytearray()
    for op, size in zip(ops, sizes):
        while size:
            length = min(size, 8)
            size -= length
            begin, end, column, end_column = op.position
            if begin is None:
                out.append(0x80 | _NONE << 3 | length - 1)
                continue
            delta, line = begin - line, begin
            if column is None or end is None or end_column is None:
                out.append(0x80 | _NO_COLUMN << 3 | length - 1)
                out += _number(_signed(delta))
            else:
                out.append(0x80 | _ONE_LINE_LONG << 3 | length - 1)
                out += _number(_signed(delta)) + _number(end - begin) + _number(column + 1) + _number(end_column + 1)
    return bytes(out)


def _signed(value: int) -> int:
    return -value << 1 | 1 if value < 0 else value << 1


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x3F:
        out.append(0x40 | value & 0x3F)
        value >>= 6
    out.append(value)
    return bytes(out)



"""Code objects as lists that can be edited: for the few code objects that a break needs, where the rewriter's speed
does not matter.

Jumps and handlers point at instructions, so instructions can be put in anywhere; `assemble` finds the numbers again.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from opcode import EXTENDED_ARG, hasjrel, opmap, opname
from types import CodeType
from typing import Any

from .decode import PAIRS, instructions, locals_of
from .encode import instruction, width
from .handlers import decode, encode

Position = tuple[int | None, int | None, int | None, int | None]
_NOWHERE: Position = (None, None, None, None)
_JUMPS = {op: -1 if "BACKWARD" in opname[op] else 1 for op in hasjrel}
_CACHES = [bytes(2 * n) for n in range(32)]
_ONE_LINE_LONG, _NO_COLUMN, _NONE = 14, 13, 15  # kinds of location entries


@dataclass(slots=True, eq=False)
class Op:
    """One instruction: `unit` is where it was before any edit, -1 for one that was put in.

    An instruction about two local variables is two here; the second has no place of its own, and its unit is below -1.
    """

    op: int
    arg: int
    caches: int
    position: Position = _NOWHERE
    target: Op | None = None
    handler: tuple[Op, int] | None = None  # first instruction of the handler, depth << 1 | lasti
    unit: int = -1
    place: int = -1  # set by `assemble`

    @property
    def name(self) -> str:
        """The opcode's name."""
        return opname[self.op]

    @property
    def whole(self) -> int:
        """The unit of the instruction that it is, or is the second part of."""
        return self.unit if self.unit >= -1 else -2 - self.unit


def disassemble(code: CodeType) -> list[Op]:
    """The instructions of a code object, jumps and handlers resolved, each about one local variable at most."""
    positions = list(code.co_positions())
    raw = code.co_code
    codes, args = raw[::2], raw[1::2]
    at: dict[int, Op] = {}
    jumps: list[tuple[Op, int]] = []
    unit, last = 0, len(codes)
    while unit < last:
        first, op, arg = unit, codes[unit], args[unit]
        while op == EXTENDED_ARG:
            unit += 1
            op, arg = codes[unit], arg << 8 | args[unit]
        prefixes = unit - first
        unit += 1
        while unit < last and not codes[unit]:  # caches
            unit += 1
        made = at[first] = Op(op, arg, unit - first - 1 - prefixes, positions[unit - 1], None, None, first)
        if op in _JUMPS:
            jumps.append((made, unit + arg * _JUMPS[op]))
    for made, target in jumps:
        made.target = at[target]
    found = list(at.values())
    units = list(at)
    for start, end, target, depth in decode(code.co_exceptiontable):
        handler = (at[target], depth)
        for made in found[bisect_left(units, start) : bisect_left(units, end)]:
            made.handler = handler
    return [part for made in found for part in _parts(made)] if PAIRS else found


def _parts(op: Op) -> list[Op]:
    if op.op not in PAIRS:
        return [op]
    (name, place), (second, there) = locals_of(op.op, op.arg)
    op.op, op.arg = opmap[name], place
    return [op, Op(opmap[second], there, 0, op.position, None, op.handler, -2 - op.unit)]


def make(name: str, arg: int = 0, *, target: Op | None = None, like: Op | None = None) -> Op:
    """A new instruction without caches, at the place of `like`; it has no handler."""
    return Op(opmap[name], arg, 0, like.position if like else _NOWHERE, target)


def from_bytes(raw: bytes, like: Op | None = None) -> list[Op]:
    """New instructions from their bytes."""
    return [
        Op(
            each.op,
            each.arg,
            each.end - each.start - 1 - (width(each.arg) if each.arg > 0xFF else 0),
            like.position if like else _NOWHERE,
        )
        for each in instructions(raw)
    ]


def assemble(code: CodeType, ops: list[Op], **changes: Any) -> tuple[CodeType, dict[int, int]]:
    """A code object with these instructions, and for each original unit the new one."""
    args, sizes = _place(ops)
    raw = bytearray()
    for op, arg, size in zip(ops, args, sizes):
        prefixes = size - 1 - op.caches
        raw += instruction(op.op, arg, prefixes) if prefixes else bytes((op.op, arg))
        raw += _CACHES[op.caches]
    made = code.replace(
        co_code=bytes(raw),
        co_linetable=_locations(ops, sizes, code.co_firstlineno),
        co_exceptiontable=encode(_ranges(ops, sizes)),
        **changes,
    )
    return made, {op.unit: op.place for op in ops if op.unit >= 0}


def _place(ops: list[Op]) -> tuple[list[int], list[int]]:
    """Arguments and sizes; sets each instruction's place.  A jump only grows, so nothing moves for ever."""
    args = [op.arg if op.target is None else 0 for op in ops]
    sizes = [1 + op.caches + (width(arg) if arg > 0xFF else 0) for op, arg in zip(ops, args)]
    jumps = [(number, op, op.target) for number, op in enumerate(ops) if op.target is not None]
    moved = True
    while moved:
        moved, unit = False, 0
        for op, size in zip(ops, sizes):
            op.place = unit
            unit += size
        for number, op, target in jumps:
            args[number] = abs(target.place - op.place - sizes[number])
            more = width(args[number]) - (sizes[number] - 1 - op.caches)
            if more > 0:
                sizes[number] += more
                moved = True
    return args, sizes


def _ranges(ops: list[Op], sizes: list[int]) -> Iterable[tuple[int, int, int, int]]:
    start = unit = 0
    current: tuple[Op, int] | None = None
    for op, size in zip(ops, sizes):
        if op.handler is not current and (
            op.handler is None or current is None or op.handler[0] is not current[0] or op.handler[1] != current[1]
        ):
            if current is not None:
                yield start, unit, current[0].place, current[1]
            start, current = unit, op.handler
        unit += size
    if current is not None:
        yield start, unit, current[0].place, current[1]


def _locations(ops: list[Op], sizes: list[int], line: int) -> bytes:
    out = bytearray()
    position, total = _NOWHERE, 0
    for op, size in zip(ops, sizes):
        if op.position != position:
            line = _entries(out, position, total, line)
            position, total = op.position, 0
        total += size
    _entries(out, position, total, line)
    return bytes(out)


def _entries(out: bytearray, position: Position, size: int, line: int) -> int:
    """The entries for `size` units at one position; gives the line that the next entry is relative to."""
    begin, end, column, end_column = position
    kind = (
        _NONE
        if begin is None
        else _NO_COLUMN
        if column is None or end is None or end_column is None
        else _ONE_LINE_LONG
    )
    while size:
        length = min(size, 8)
        size -= length
        out.append(0x80 | kind << 3 | length - 1)
        if begin is None:
            continue
        out += _number(_signed(begin - line))
        line = begin
        if kind == _ONE_LINE_LONG:
            out += _columns(end - begin, column, end_column)  # type: ignore[operator]  # of this kind all are known
    return line


@functools.cache
def _columns(lines: int, column: int, end_column: int) -> bytes:
    return _number(lines) + _number(column + 1) + _number(end_column + 1)


def _signed(value: int) -> int:
    return -value << 1 | 1 if value < 0 else value << 1


def _number(value: int) -> bytes:
    if value <= 0x3F:
        return bytes((value,))
    out = bytearray()
    while value > 0x3F:
        out.append(0x40 | value & 0x3F)
        value >>= 6
    out.append(value)
    return bytes(out)

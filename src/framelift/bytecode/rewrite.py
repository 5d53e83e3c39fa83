"""The rewriter: one pass over the opcode bytes that stops only at jumps and at opcodes with a rule.

Between these sites the bytecode is copied as slices.  There is no object per instruction: capture pays for this
pass once for every code object a program runs, so its cost per instruction is held by a test.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, compress
from opcode import EXTENDED_ARG
from types import CodeType

from .dialect import Dialect
from .encode import instruction, width
from .layout import Layout
from .rule_writer import Writer

#: a jump: number of its site, opcode, direction, argument, EXTENDED_ARG prefixes
_Jump = tuple[int, int, int, int, int]


def rewrite(code: CodeType, dialect: Dialect, writer: Writer) -> tuple[bytes, Layout, list[int]]:
    """New bytecode, where the instructions went, and how much each replaced one grew."""
    raw = code.co_code
    ops, args = raw[::2], raw[1::2]
    rules, spans, directions = dialect.rules, dialect.spans, dialect.jumps
    before = dialect.before
    flags = dialect.free_sites if code.co_freevars else dialect.sites
    chunks: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    growth: list[int] = []
    jumps: list[_Jump] = []
    made: dict[int, bytes | None] = {}
    done = seen = 0  # units copied, units looked at
    for unit in _sites(code, dialect, ops, args, flags):
        if unit < seen:
            continue
        start = unit
        op, arg = ops[unit], args[unit]
        if op == EXTENDED_ARG:
            while op == EXTENDED_ARG:
                unit += 1
                op, arg = ops[unit], arg << 8 | args[unit]
            if not flags[op]:
                seen = unit + 1
                continue
        # Prefixes belong to their instruction: neither they nor it may be met again with a part of the argument.
        seen = end = unit + spans[op]
        direction = directions[op]
        if direction:
            jumps.append((len(ends), op, direction, arg, unit - start))
            new: bytes | None = b""
            growth.append(0)
        else:
            key = arg << 8 | op
            rule = rules[op]
            if op in before and before[op][0][ops[end]]:
                key, rule = ~key, before[op][1]
            try:
                new = made[key]
            except KeyError:
                new = made[key] = rule(writer, arg)  # type: ignore[misc]  # sites have rules
            if new is None:
                continue
            growth.append((len(new) >> 1) - end + start)
        chunks.append(raw[2 * done : 2 * start])
        chunks.append(new)  # type: ignore[arg-type]  # None: handled above
        starts.append(start)
        ends.append(end)
        done = end
    chunks.append(raw[2 * done :])
    shifts = _settle(jumps, ends, growth, chunks, spans)
    return b"".join(chunks), Layout(starts, ends, shifts), growth


def _sites(code: CodeType, dialect: Dialect, ops: bytes, args: bytes, flags: bytes) -> Iterable[int]:
    # Inline caches read as opcode 0 in co_code, so every flagged byte is an instruction.
    sites = compress(range(len(ops)), ops.translate(flags))
    marked = dialect.mark(code, ops, args)
    return sorted(marked.union(sites)) if marked else sites


def _settle(
    jumps: list[_Jump], ends: list[int], growth: list[int], chunks: list[bytes], spans: tuple[int, ...]
) -> list[int]:
    """Choose the prefixes of all jumps, write them into `chunks`, and return the shifts.

    A jump that got farther may need a prefix, which moves others; prefixes are only ever added, so this ends.
    """
    links = [
        (site, bisect_right(ends, ends[site] + direction * arg), direction, arg) for site, _, direction, arg, _ in jumps
    ]
    prefixes = [before for _, _, _, _, before in jumps]
    growing = True
    while growing:
        growing = False
        shifts = [0, *accumulate(growth)]
        args = [arg + direction * (shifts[target] - shifts[site + 1]) for site, target, direction, arg in links]
        if args and max(args) > 0xFF:
            for number, arg in enumerate(args):
                more = width(arg) - prefixes[number]
                if more > 0:
                    prefixes[number] += more
                    growth[jumps[number][0]] += more
                    growing = True
    for (site, op, _, _, _), arg, before in zip(jumps, args, prefixes):
        chunks[2 * site + 1] = instruction(op, arg, before) + bytes(2 * spans[op] - 2)
    return shifts

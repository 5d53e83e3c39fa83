"""The checker: proves of one code object that its twin is the same program with probes in it.

It reads both through CPython's own tables (`co_positions`, `dis`, `stack_effect`) and shares nothing with the rewriter
but the layout, which says where each instruction went.  Every function returns the defects it found, as sentences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from opcode import opname
from pathlib import Path
from types import CodeType

from bytecode.decode import Instruction, effect, handlers, instructions, jump_target
from bytecode.dialect import Dialect
from bytecode.dialects import current
from bytecode.handlers import decode, encode
from bytecode.layout import Layout
from bytecode.maker import AnyProbe, twin_with

__all__ = ["check_round_trip", "check_structure", "library_code", "with_nested"]

_SAME = (
    "co_name",
    "co_qualname",
    "co_filename",
    "co_firstlineno",
    "co_varnames",
    "co_cellvars",
    "co_freevars",
    "co_names",
)


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all code objects among its constants."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from with_nested(const)


def library_code(root: Path | None = None) -> Iterator[CodeType]:
    """Every code object of the Python files below a folder.

    The standard library, tests included, when none is given.
    """
    library = Path(os.__file__).parent
    for path in sorted((root or library).rglob("*.py")):
        if root is None and "site-packages" in path.parts:
            continue
        try:
            module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue  # deliberately broken files among the tests
        yield from with_nested(module)


def check_round_trip(code: CodeType) -> list[str]:
    """Taking a code object apart and putting it together without any rule must give the same bytes."""
    nothing = bytes(flag and not rule for flag, rule in zip(current().sites, current().rules))
    empty = replace(current(), sites=nothing, free_sites=nothing, mark=lambda *_: set(), before={}, depth=0)
    again, _ = twin_with(empty, code, {}, False)
    found = [
        f"{field} is not the same after a round trip"
        for field in ("co_code", "co_linetable", "co_exceptiontable", "co_consts", "co_stacksize", "co_flags")
        if getattr(code, field) != getattr(again, field)
    ]
    if encode(decode(code.co_exceptiontable)) != code.co_exceptiontable:
        found.append("the exception table is not the same after a round trip")
    return found


def check_structure(code: CodeType, dialect: Dialect | None = None) -> list[str]:
    """The twin has the original's positions, handlers, jumps, names and stack effects, instruction by instruction."""
    dialect = dialect or current()
    twin, placed = twin_with(dialect, code, AnyProbe(), False)
    found = [
        f"{field} differs"
        for field in (*_SAME, "co_flags", "co_argcount", "co_kwonlyargcount", "co_posonlyargcount")
        if getattr(code, field) != getattr(twin, field)
    ]
    if any(a is not b for a, b in zip(code.co_consts, twin.co_consts)):
        found.append("original constants differ")
    raw = code.co_code
    replaced = dict(zip(placed.starts, placed.ends))
    positions, handled = (list(code.co_positions()), list(twin.co_positions())), (handlers(code), handlers(twin))
    if len(positions[1]) * 2 != len(twin.co_code):
        found.append("the location table does not cover the code")
    done = 0
    for instruction in instructions(raw):
        if instruction.start < done:
            continue
        done = replaced.get(instruction.start, instruction.end)
        before, after = slice(instruction.start, done), slice(placed.place(instruction.start), placed.place(done))
        where = f"{instruction.name} at {2 * instruction.start}"
        if {*positions[0][before]} != {*positions[1][after]} or after.start >= after.stop:
            found.append(f"{where}: positions {positions[0][before]} became {positions[1][after]}")
        if {_moved(h, placed) for h in handled[0][before]} != {*handled[1][after]}:
            found.append(f"{where}: another handler")
        if instruction.start not in replaced:
            if raw[2 * before.start : 2 * before.stop] != twin.co_code[2 * after.start : 2 * after.stop]:
                found.append(f"{where}: changed without a rule")
        else:
            found += (
                f"{where}: {text}" for text in _check_site(instruction, raw, before, twin, after, placed, dialect)
            )
    return found


def _moved(handler: tuple[int, int, int, int, bool] | None, placed: Layout) -> tuple[int, int, int, int, bool] | None:
    if handler is None:
        return None
    start, end, target, depth, lasti = handler
    return placed.place(start), placed.place(end), placed.place(target), depth, lasti


def _check_site(
    instruction: Instruction, raw: bytes, before: slice, twin: CodeType, after: slice, placed: Layout, dialect: Dialect
) -> Iterator[str]:
    new = list(instructions(twin.co_code, after.start, after.stop))
    target = jump_target(instruction)
    if target is not None:
        if [(i.op, jump_target(i)) for i in new] != [(instruction.op, placed.place(target))]:
            yield f"jump to {2 * target} became {new}"
        return
    depth = highest = 0
    for step in new:
        depth += effect(step)
        highest = max(highest, depth)
    old = sum(effect(step) for step in instructions(raw, before.start, before.stop))
    if depth != old:
        yield f"stack effect {old} became {depth}"
    allowed = dialect.table[opname[instruction.op]].depth
    if highest > allowed:
        yield f"needs {highest} more stack, its rule says {allowed}"

"""`make_twin`: puts together what the rewriter, the location table and the exception table give."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from inspect import CO_VARARGS, CO_VARKEYWORDS
from opcode import opmap
from types import CodeType
from typing import Any

from .dialect import Dialect
from .dialects import current
from .handlers import relocate
from .layout import Layout
from .locations import stretch
from .rewrite import rewrite
from .rule_writer import Writer


def make_twin(code: CodeType, probes: Mapping[str, Callable[..., Any]], *, positional: bool = True) -> CodeType:
    """The instrumented copy of a code object: same names, lines, cells and handlers, a few opcodes call probes.

    With `positional` the twin takes all parameters of the original, star parameters included, by position in the
    order of the frame's locals; without it the signature stays, so that a function can get the twin as its
    `__code__`.  Code objects among the constants are left alone: their frames get their twins when they start.
    """
    twin = twin_with(current(), code, probes, positional)[0]
    _note(_originals, twin, code)
    return twin


#: by the address of what was made: that and its original, both weakly, since the original holds its twin
_Made = dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType]]]
_originals: _Made = {}
_resumed: _Made = {}


def _note(table: _Made, made: CodeType, code: CodeType) -> None:
    key, pop = id(made), table.pop

    def forget(_: Any) -> None:
        pop(key, None)

    table[key] = (weakref.ref(made, forget), weakref.ref(code))


def _looked_up(table: _Made, code: CodeType) -> CodeType:
    found = table.get(id(code))
    original = found[1]() if found is not None and found[0]() is code else None
    return code if original is None else original


def original_of(code: CodeType) -> CodeType:
    """The code that `code` is the twin of; `code` itself where it is no twin."""
    return _looked_up(_originals, code)


def note_twin(twin: CodeType, code: CodeType) -> None:
    """`twin` was made from the twin of `code`, and stands for it."""
    _note(_originals, twin, code)


def note_resumed(made: CodeType, code: CodeType) -> None:
    """`made` resumes frames of `code` after a break."""
    _note(_resumed, made, code)


def source_of(code: CodeType) -> CodeType:
    """The program's own code object that `code` was made from, as a twin or to resume after a break."""
    return _looked_up(_resumed, original_of(code))


def twin_with(dialect: Dialect, code: CodeType, probes: Mapping[str, Any], positional: bool) -> tuple[CodeType, Layout]:
    """A twin by the rules of a given dialect, and where the instructions went."""
    writer = Writer(code, probes, dialect.calls, opmap[dialect.load_cell])
    raw, placed, growth = rewrite(code, dialect, writer)
    changes: dict[str, Any] = {
        "co_code": raw,
        "co_consts": tuple(writer.consts),
        # A replacement leaves the stack as its instruction does and needs at most `depth` more than where it started.
        "co_stacksize": code.co_stacksize + dialect.depth,
        "co_linetable": stretch(code.co_linetable, placed.starts, growth),
    }
    if code.co_exceptiontable:
        changes["co_exceptiontable"] = relocate(code.co_exceptiontable, placed.place)
    if positional:
        flags = code.co_flags
        changes["co_argcount"] = (
            code.co_argcount + code.co_kwonlyargcount + bool(flags & CO_VARARGS) + bool(flags & CO_VARKEYWORDS)
        )
        changes["co_posonlyargcount"] = changes["co_kwonlyargcount"] = 0
        changes["co_flags"] = flags & ~(CO_VARARGS | CO_VARKEYWORDS)
    return code.replace(**changes), placed


class AnyProbe(dict[str, None]):
    """Probes for those who only want to see the twin: none of them can be called."""

    def __missing__(self, name: str) -> None:
        return None


def layout(code: CodeType) -> Layout:
    """Where the instructions of `code` are in its twins.  It does not depend on the probes."""
    return twin_with(current(), code, AnyProbe(), False)[1]

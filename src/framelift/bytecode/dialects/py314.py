"""CPython 3.14: as 3.13, but `with` looks its methods up by LOAD_SPECIAL, a star call always has a place for keywords,
and an offset on the stack is no Python object.
"""

from __future__ import annotations

from opcode import _inline_cache_entries  # type: ignore[attr-defined]  # private in typeshed

from ..dialect import EX_ARGS, EX_KWARGS, Dialect, RuleTable, build
from ..encode import named
from ..instruction_kinds import DialectMarks
from ..rule_writer import Writer
from . import py313
from .shared import COPY1, SWAP2, remainder, test_attr

RULES: RuleTable = py313.RULES.without("BEFORE_WITH", "BEFORE_ASYNC_WITH", "CALL_FUNCTION_EX", "BINARY_OP")


@RULES("CALL_FUNCTION_EX", depth=1)
def call_function_ex(w: Writer, arg: int) -> bytes:
    return w.const[EX_ARGS, EX_KWARGS] + named("CALL_KW", 2, caches=_inline_cache_entries["CALL_KW"])


def no_keywords(w: Writer, arg: int) -> bytes:
    """PUSH_NULL in the place of a star call's keywords: a probe stands where the original has NULL."""
    return w.probe["call"]


@RULES("BINARY_OP", depth=3)
def binary_op(w: Writer, arg: int) -> bytes | None:
    return remainder(w, arg, caches=_inline_cache_entries["BINARY_OP"])


@RULES("COPY", depth=1)
def copy(w: Writer, arg: int) -> bytes | None:
    return None


def enter(w: Writer, arg: int) -> bytes:
    """COPY of a context manager, whose methods LOAD_SPECIAL takes."""
    return w.probe["before_with"] + SWAP2 + w.calls[0] + COPY1


def dialect() -> Dialect:
    """The tables of CPython 3.14."""
    return build(
        (3, 14),
        RULES,
        caches=_inline_cache_entries,
        call=py313.call,
        load_cell="LOAD_FAST",
        mark=DialectMarks("CALL", len(py313.call(0)) // 2, part="SET_FUNCTION_ATTRIBUTE"),
        before={
            "LOAD_ATTR": (("TO_BOOL",), test_attr),
            "PUSH_NULL": (("CALL_FUNCTION_EX",), no_keywords),
            "COPY": (("LOAD_SPECIAL",), enter),
        },
        null_above=True,
        exit_slots=2,
        tags_offsets=True,
    )

"""CPython 3.13: the callable comes before its NULL, keyword calls are CALL_KW, parts of functions are set singly."""

from __future__ import annotations

from opcode import _inline_cache_entries  # type: ignore[attr-defined]  # private in typeshed

from ..dialect import Dialect, RuleTable, build
from ..encode import named
from ..instruction_kinds import DialectMarks
from ..rule_writer import Writer
from .shared import EVERYWHERE, SHARED, SWAP2, ex_names, spread, test_attr

RULES: RuleTable = SHARED.only(
    *EVERYWHERE, *("LOAD_ATTR LOAD_SUPER_ATTR CALL CONVERT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC").split()
)


@RULES("PUSH_NULL", depth=1)
def push_null(w: Writer, arg: int) -> bytes:
    return w.probe["call"] + SWAP2


@RULES("CALL_FUNCTION_EX", depth=1)
def call_function_ex(w: Writer, arg: int) -> bytes:
    names = ex_names(arg)
    return w.const[names] + named("CALL_KW", len(names))


def _exchange(callable_at: int) -> bytes:
    """[a][b] ... -> [b][a] ..., where b is the slot number `callable_at` from the top."""
    return named("SWAP", callable_at) + named("SWAP", callable_at + 1) + named("SWAP", callable_at)


@RULES("DICT_MERGE", depth=1)
def dict_merge(w: Writer, arg: int) -> bytes:
    # It merges the mappings of a star call, and looks for the callable where its errors shall find a name: one slot
    # lower than we have it.
    return spread(w) + _exchange(3 + arg) + named("DICT_MERGE", arg) + _exchange(2 + arg)


def _finished(w: Writer) -> bytes:
    return w.probe["make_function"] + SWAP2 + w.calls[0]


# A function is complete after the last of its parts is set; the marker names that instruction.
@RULES("MAKE_FUNCTION", depth=1, where="marked")
def make_function(w: Writer, arg: int) -> bytes:
    return named("MAKE_FUNCTION", arg) + _finished(w)


@RULES("SET_FUNCTION_ATTRIBUTE", depth=1, where="marked")
def set_function_attribute(w: Writer, arg: int) -> bytes:
    return named("SET_FUNCTION_ATTRIBUTE", arg) + _finished(w)


def call(count: int) -> bytes:
    """A call of the first slot with the count + 1 above it."""
    return named("CALL", count, caches=3)


def dialect() -> Dialect:
    """The tables of CPython 3.13."""
    return build(
        (3, 13),
        RULES,
        caches=_inline_cache_entries,
        call=call,
        load_cell="LOAD_FAST",
        mark=DialectMarks("CALL", len(call(0)) // 2, part="SET_FUNCTION_ATTRIBUTE"),
        before={"LOAD_ATTR": (("TO_BOOL",), test_attr)},
        null_above=True,
    )

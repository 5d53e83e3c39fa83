"""CPython 3.11: LOAD_METHOD of its own, PRECALL before every CALL."""

from __future__ import annotations

from opcode import _inline_cache_entries, opname  # type: ignore[attr-defined]  # private in typeshed

from ..dialect import Dialect, RuleTable, build
from ..encode import named
from ..instruction_kinds import DialectMarks
from ..rule_writer import Writer
from .shared import EVERYWHERE, SHARED, SWAP2, call_decorator, method

RULES: RuleTable = SHARED.only(*EVERYWHERE, *"PUSH_NULL MAKE_FUNCTION CALL_FUNCTION_EX DICT_MERGE FORMAT_VALUE".split())


@RULES("LOAD_ATTR", depth=2)
def load_attr(w: Writer, arg: int) -> bytes:
    return w.probe["load_attr"] + SWAP2 + w.name[arg] + w.calls[1]


def test_attr(w: Writer, arg: int) -> bytes:
    """LOAD_ATTR, where the next instruction asks the value for its truth alone."""
    return w.probe["test_attr"] + SWAP2 + w.name[arg] + w.calls[1]


@RULES("LOAD_METHOD", depth=3)
def load_method(w: Writer, arg: int) -> bytes:
    return method(w, load_attr(w, arg))


RULES("PRECALL", depth=1, where="marked")(call_decorator)


def _call(count: int) -> bytes:
    return named("PRECALL", count, caches=1) + named("CALL", count, caches=4)


_TESTING = (
    "POP_JUMP_FORWARD_IF_FALSE",
    "POP_JUMP_FORWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE",
    "UNARY_NOT",
)


def dialect() -> Dialect:
    """The tables of CPython 3.11."""
    caches = {opname[op]: count for op, count in enumerate(_inline_cache_entries)}
    # Only a decorator's PRECALL is ever replaced, and its CALL goes with it.
    pair = len(_call(0)) // 2
    return build(
        (3, 11),
        RULES,
        caches=caches,
        spans={"PRECALL": pair},
        call=_call,
        load_cell="LOAD_CLOSURE",
        mark=DialectMarks("PRECALL", pair),
        before={"LOAD_ATTR": (_TESTING, test_attr)},
    )

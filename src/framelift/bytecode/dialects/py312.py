"""CPython 3.12: methods and attributes share LOAD_ATTR, `super()` has an opcode, comprehensions are inlined."""

from __future__ import annotations

from opcode import _inline_cache_entries, opname  # type: ignore[attr-defined]  # private in typeshed

from ..dialect import Dialect, RuleTable, build
from ..encode import named
from ..instruction_kinds import DialectMarks
from .shared import EVERYWHERE, SHARED, test_attr

RULES: RuleTable = SHARED.only(
    *EVERYWHERE,
    *("PUSH_NULL LOAD_ATTR LOAD_SUPER_ATTR MAKE_FUNCTION CALL_FUNCTION_EX DICT_MERGE FORMAT_VALUE CALL").split(),
)


def _call(count: int) -> bytes:
    return named("CALL", count, caches=3)


def dialect() -> Dialect:
    """The tables of CPython 3.12."""
    caches = {opname[op]: count for op, count in enumerate(_inline_cache_entries)}
    return build(
        (3, 12),
        RULES,
        caches=caches,
        call=_call,
        load_cell="LOAD_CLOSURE",
        mark=DialectMarks("CALL", len(_call(0)) // 2),
        before={"LOAD_ATTR": (("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "UNARY_NOT"), test_attr)},
    )

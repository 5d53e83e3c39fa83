"""Sums of symbols: torch marks a node that is one when it is made, and adds to it by its terms alone.

An equality found later may make such a node another expression, of which torch would still take the parts for
terms: `s0 + s1` with `s0 == s1` is `2*s1`, and one more symbol makes `2 + s1 + s2` of it.  Here the mark counts
only where the expression is such a sum now.
"""

from __future__ import annotations

from typing import Any

from torch.fx.experimental import sym_node


def _is_sum(expr: Any) -> bool:
    return bool(expr.is_Add) and all(term.is_symbol for term in expr._args)


def _checked(add: Any) -> Any:
    def optimized_add(lhs: Any, rhs: Any, lhs_is_sum: bool = False, rhs_is_sum: bool = False) -> Any:
        return add(lhs, rhs, lhs_is_sum and _is_sum(lhs), rhs_is_sum and _is_sum(rhs))

    return optimized_add


if hasattr(sym_node, "_optimized_add"):
    sym_node._optimized_add = _checked(sym_node._optimized_add)

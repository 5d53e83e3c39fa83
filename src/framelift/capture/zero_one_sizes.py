"""Sizes 0 and 1: one capture for all sizes, where the graph of this size is the same.

Two rehearsals are compared: one with the size as a constant, one that does not know it.  Where the program or
torch asks for the size, the second stops; where an operation, an argument or the layout of a result differs at
this size, the graph is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
import torch

from ..graph.fx.values import Value
from ..graph.symbols.environment import Symbols
from ..graph.symbols.numbers import NUMBERS, Float

_SEQUENCES = (tuple, list, torch.Size)


def is_same_graph(constant: Any, general: Any) -> bool:
    """Return whether two recorders of one call recorded the same; sizes unknown to `general` are as in this call."""
    symbols = general.symbols
    if symbols is None or symbols.env.deferred_runtime_asserts or len(constant.tape) != len(general.tape):
        return False
    numbers = _NumbersOfCall(constant.symbols), _NumbersOfCall(symbols)
    ones, others = ({id(value): i for i, value in enumerate(recorder.values())} for recorder in (constant, general))

    def same(one: Any, other: Any) -> bool:
        if type(one) is Value:
            return type(other) is Value and ones.get(id(one)) == others.get(id(other))
        if type(one) in _SEQUENCES:
            return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
        if type(one) is dict:
            return type(other) is dict and list(one) == list(other) and all(map(same, one.values(), other.values()))
        if type(one) is slice:
            return type(other) is slice and all(
                same(getattr(one, name), getattr(other, name)) for name in ("start", "stop", "step")
            )
        left, right = numbers[0].plain(one), numbers[1].plain(other)
        return left is right or type(left) is type(right) and type(left) in _COMPARED and left == right

    return (
        len(ones) == len(others)
        and all(
            a.target.func is b.target.func
            and a.target.name == b.target.name
            and same(a.args, b.args)
            and same(a.kwargs, b.kwargs)
            for a, b in zip(constant.tape, general.tape)
        )
        and all(
            a.external is b.external and a.path == b.path and _is_laid_out_alike(a, b, same)
            for a, b in zip(constant.values(), general.values())
        )
    )


_COMPARED = (int, float, bool, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _is_laid_out_alike(one: Value, other: Value, same: Any) -> bool:
    a, b = one.facts, other.facts
    return (
        a.dtype == b.dtype
        and a.device == b.device
        and same(tuple(a.size), tuple(b.size))
        and same(tuple(a.stride), tuple(b.stride))
        and a.requires_grad == b.requires_grad
    )


class _NumbersOfCall:
    """The values of symbolic numbers in this call, those included that a rehearsal does not know."""

    def __init__(self, symbols: Symbols | None) -> None:
        self.symbols = symbols

    def plain(self, number: Any) -> Any:
        """A symbolic number's value; what equals nothing where it has none.  Anything else is itself."""
        if type(number) is Float:
            return number.hint if number.hint is not None else object()
        if type(number) in NUMBERS:
            number = number.raw
        if type(number) is not torch.SymInt or self.symbols is None:
            return number
        expression = number.node.expr
        known = dict(self._known(expression))
        found = expression.xreplace(known) if len(known) == len(expression.free_symbols) else None
        return int(found) if found is not None and found.is_Integer else object()

    def _known(self, expression: sympy.Expr) -> Iterator[tuple[Any, Any]]:
        assert self.symbols is not None
        for symbol in expression.free_symbols:
            if str(symbol) in self.symbols.meanings:
                try:
                    yield symbol, sympy.Integer(self.symbols.shape_hint(str(symbol)))
                except StopIteration:  # only the graph knows it
                    return

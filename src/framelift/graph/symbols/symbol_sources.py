"""Sources, as torch's shape environment and compilers want them: where a symbol or an attribute comes from."""

from __future__ import annotations

import types
from typing import Any

from torch.fx.experimental import sym_node

from ..._core import is_a
from ...torch_ports.fakes import GuardSource, Source


class SourceName(str):
    """The name of a source.  It can be called, too: versions of torch differ in whether `name` is a method."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class _Place(Source):
    """Where a symbol comes from, as torch's shape environment wants it."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", SourceName(text))

    name = property(lambda self: self.text)
    guard_source: Any = property(lambda self: GuardSource.LOCAL)
    if is_a(vars(Source).get("guard_source"), types.FunctionType):  # a method in older versions of torch

        def guard_source(self) -> GuardSource:
            return GuardSource.LOCAL

    _name_template = property(lambda self: str(self.text))

    def __reduce__(self) -> Any:
        return _Place, (str(self.text),)

    def __hash__(self) -> int:
        return hash(str(self.text))

    def __eq__(self, other: object) -> bool:
        return is_a(other, _Place) and str(self.text) == str(other.text)


def source_called(text: str) -> Source:
    """Make a source of an input or attribute for torch's compilers: nothing but its name."""
    return _Place(text)


# ---- Sums of symbols: torch marks a node that is one when it is made, and adds to it by its terms alone ----


def _is_sum(expr: Any) -> bool:
    return bool(expr.is_Add) and all(term.is_symbol for term in expr._args)


def _checked(add: Any) -> Any:
    def optimized_add(lhs: Any, rhs: Any, lhs_is_sum: bool = False, rhs_is_sum: bool = False) -> Any:
        return add(lhs, rhs, lhs_is_sum and _is_sum(lhs), rhs_is_sum and _is_sum(rhs))

    return optimized_add


if hasattr(sym_node, "_optimized_add"):
    sym_node._optimized_add = _checked(sym_node._optimized_add)

"""Expressions of sympy's as plain data, and back: sizes that are calculated from symbols, and relations between them.

Nothing is parsed: an expression is a list of the name of its class and its parts, and the classes are those of a table.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import sympy

from .._core import is_a
from ..torch_ports.symbols import sympy_functions
from ..vocabulary.written_forms import NotKept
from .refusals import NotMine

_SYMPY = (
    sympy.Add,
    sympy.Mul,
    sympy.Pow,
    sympy.Eq,
    sympy.Ne,
    sympy.Lt,
    sympy.Le,
    sympy.Gt,
    sympy.Ge,
    sympy.And,
    sympy.Or,
    sympy.Not,
)
_CLASSES: dict[str, Any] = {
    **{
        name: cls
        for name, cls in vars(sympy_functions or types).items()
        if is_a(cls, type) and issubclass(cls, sympy.Basic)
    },
    **{cls.__name__: cls for cls in _SYMPY},
}


def expression_data(expression: Any) -> Any:
    """The data of an expression over symbols; raises `NotKept`."""
    data = _data(expression)
    if _of(data, {str(symbol): symbol for symbol in expression.free_symbols}) != expression:
        raise NotKept("a relation between sizes has no written form", str(expression))
    return data


def _data(expression: Any) -> Any:
    if is_a(expression, sympy.Symbol):
        return ["symbol", str(expression)]
    if is_a(expression, sympy.Integer):
        return int(expression)
    if expression in (sympy.true, sympy.false):
        return bool(expression)
    if is_a(expression, sympy.Rational):
        return ["rational", int(expression.p), int(expression.q)]
    name = type(expression).__name__
    if _CLASSES.get(name) is not type(expression):
        raise NotKept("a relation between sizes has no written form", name)
    return [name, *map(_data, expression.args)]


def expression_of(data: Any, symbols: Mapping[str, Any]) -> Any:
    """The expression of such data, over these symbols; raises `NotMine`."""
    try:
        return _of(data, symbols)
    except (KeyError, TypeError, IndexError) as error:
        raise NotMine(f"an unknown expression: {error}") from None


def _of(data: Any, symbols: Mapping[str, Any]) -> Any:
    if type(data) is bool:
        return sympy.true if data else sympy.false
    if type(data) is int:
        return sympy.Integer(data)
    head, *parts = data
    if head == "symbol":
        return symbols[parts[0]]
    if head == "rational":
        return sympy.Rational(*parts)
    return _CLASSES[head](*[_of(one, symbols) for one in parts])

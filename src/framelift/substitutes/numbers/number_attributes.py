"""Attributes of symbolic numbers: those of the plain number, and none that other classes add."""

from __future__ import annotations

from typing import Any

from ... import _core
from ...boundary.records import ABSENT
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...vocabulary.class_reads import has_member

SYMBOLIC = (*NUMBERS, NumpyNumber)


def read_number(_world: Any, number: Any, name: str) -> Any:
    """`n.name` for a symbolic number: what the plain number has, calculated with symbols where that is known."""
    plain = number.__class__
    outside = _core.type_lookup(plain, name, ABSENT)
    if outside is ABSENT:
        raise AttributeError(f"{_shown_name(plain)!r} object has no attribute {name!r}", name=name, obj=number)
    if not has_member(type(outside), "__get__"):
        return outside  # text of the class
    own = _core.type_lookup(type(number), name, ABSENT)
    if name != "__class__" and (own is ABSENT or own is None or own is object.__dict__.get(name)):
        return getattr(number.value(), name)
    return getattr(number, name)


def _shown_name(plain: type) -> str:
    """A class as errors of C code call it."""
    return plain.__name__ if plain.__module__ == "builtins" else f"{plain.__module__}.{plain.__name__}"

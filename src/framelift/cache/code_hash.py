"""Hashes of code objects: any edit of a function's source that changes its code or its lines gives another one."""

from __future__ import annotations

import functools
import hashlib
import types
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["code_hash", "nested"]

_FIELDS = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_name",
    "co_qualname",
    "co_filename",
    "co_firstlineno",
    "co_linetable",
    "co_exceptiontable",
)
_known: dict[int, tuple[weakref.ref[types.CodeType], str]] = {}


def code_hash(code: types.CodeType) -> str:
    """The hash of a code object and of all code objects inside it."""
    found = _known.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    made = hashlib.sha256(_text(code).encode("utf-8", "backslashreplace")).hexdigest()[:32]
    _known[id(code)] = weakref.ref(code, functools.partial(_forget, id(code))), made
    return made


def _forget(key: int, _reference: Any) -> None:
    _known.pop(key, None)


def _text(code: types.CodeType) -> str:
    fields = [repr(getattr(code, name)) for name in _FIELDS]
    return "\n".join([*fields, *map(_constant, code.co_consts)])


def _constant(value: Any) -> str:
    kind = type(value)
    if kind is types.CodeType:
        return f"code {code_hash(value)}"
    if kind is tuple:
        return f"({', '.join(map(_constant, value))})"
    if kind is frozenset:  # its order is another one in each process
        return f"frozenset({', '.join(sorted(map(_constant, value)))})"
    return f"{kind.__name__} {value!r}"


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for value in code.co_consts:
        if type(value) is types.CodeType:
            yield from nested(value)

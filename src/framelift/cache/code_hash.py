"""Hashes of code objects: any edit of a function's source that changes its code or its lines gives another one."""

from __future__ import annotations

import functools
import hashlib
import marshal
import types
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["code_hash", "nested"]

#: kinds of constants that are written alike in each process
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_known: dict[int, tuple[weakref.ref[types.CodeType], str]] = {}


def code_hash(code: types.CodeType) -> str:
    """The hash of a code object and of all code objects inside it."""
    found = _known.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    # Version 0 knows no references, which depend on who else holds an object, and no interned strings.
    data = marshal.dumps(code if _is_plain(code.co_consts) else _fields(code), 0)
    made = hashlib.sha256(data).hexdigest()[:32]
    _known[id(code)] = weakref.ref(code, functools.partial(_forget, id(code))), made
    return made


def _forget(key: int, _reference: Any) -> None:
    _known.pop(key, None)


def _is_plain(constants: tuple[Any, ...]) -> bool:
    """Whether all of these are written alike in each process."""
    for value in constants:
        kind = type(value)
        if kind not in _PLAIN:
            parts = value if kind is tuple else value.co_consts if kind is types.CodeType else None
            if parts is None or not _is_plain(parts):
                return False
    return True


def _fields(code: types.CodeType) -> tuple[Any, ...]:
    """All of a code object, its constants as texts."""
    return (
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_name,
        code.co_qualname,
        code.co_filename,
        code.co_firstlineno,
        code.co_linetable,
        code.co_exceptiontable,
        *map(_constant, code.co_consts),
    )


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

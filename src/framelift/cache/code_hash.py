"""Hashes of code objects: any edit of a function's source that changes what it computes gives another one."""

from __future__ import annotations

import hashlib
import marshal
import secrets
import struct
import types
from collections.abc import Iterator
from typing import Any

from .. import _core
from ..bytecode.maker import source_of
from ..bytecode.rule_writer import RESUMES
from ..vocabulary.class_reads import for_life

#: kinds of constants that `marshal` writes alike in each process; of NaNs it loses the bits
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_ORDERED = frozenset({bool, int, float})  # sets of these iterate alike in each process
_THIS_PROCESS = secrets.token_hex()
#: what resumed code holds (bytecode/resume.py)
_OWN = {id(RESUMES): "resumes", id(_core.handle_from_here): "set_handled"}


@for_life
def code_hash(code: types.CodeType) -> str:
    """Return the hash of what a code object and all code objects inside it compute, wherever they are written.

    That of code which holds objects (they were put there when the program ran) is another one in each process.
    """
    # Version 0 knows no references, which depend on who else holds an object, and no interned strings.
    is_plain = _are_written_alike(code.co_consts)
    data = marshal.dumps(_placeless(code), 0) if is_plain else repr(_fields(code)).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:32]


def exact_hash(code: types.CodeType) -> str:
    """Return the hash of a code object with its file and its lines."""
    made = hashlib.sha256(code_hash(code).encode())
    for one in nested(code):
        text = f"{one.co_filename}:{one.co_firstlineno}:"
        made.update(text.encode("utf-8", "backslashreplace") + one.co_linetable)
    return made.hexdigest()[:32]


def _placeless(code: types.CodeType) -> types.CodeType:
    constants = [_placeless(one) if type(one) is types.CodeType else one for one in code.co_consts]
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_consts=tuple(constants))


def _are_written_alike(constants: tuple[Any, ...]) -> bool:
    """Return whether all of these are written alike in each process."""
    for value in constants:
        kind = type(value)
        if kind not in _PLAIN or value != value:
            parts = value if kind is tuple else value.co_consts if kind is types.CodeType else None
            if parts is None or not _are_written_alike(parts):
                return False
    return True


def _fields(code: types.CodeType) -> tuple[Any, ...]:
    """All of a code object but its file and its lines, its constants as texts."""
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
        code.co_exceptiontable,
        *map(_constant, code.co_consts),
    )


def _constant(value: Any) -> str:
    kind = type(value)
    if kind is types.CodeType:
        return f"code {code_hash(value)}"
    if kind is tuple:
        return f"({', '.join(map(_constant, value))})"
    if kind is frozenset:
        parts = map(_constant, value)
        return f"frozenset({', '.join(parts if all(type(one) in _ORDERED for one in value) else sorted(parts))})"
    if kind is slice:
        return f"slice{_constant((value.start, value.stop, value.step))}"
    if kind is float:
        return f"float {struct.pack('>d', value).hex()}"
    if kind is complex:
        return f"complex {struct.pack('>dd', value.real, value.imag).hex()}"
    if kind is int:
        return f"int {value:x}"
    if kind in _PLAIN:
        return f"{kind.__name__} {value!r}"
    return f"own {_OWN[id(value)]}" if id(value) in _OWN else f"object {_THIS_PROCESS} {id(value):x}"


def holds_objects(code: types.CodeType) -> bool:
    """Return whether code holds constants that no source has."""
    return any(map(_is_object, code.co_consts))


def _is_object(value: Any) -> bool:
    kind = type(value)
    if kind in (tuple, frozenset):
        return any(map(_is_object, value))
    if kind is slice:
        return slice.__hash__ is None or any(map(_is_object, (value.start, value.stop, value.step)))
    return holds_objects(value) if kind is types.CodeType else kind not in _PLAIN and id(value) not in _OWN


def with_source(code: types.CodeType) -> list[types.CodeType]:
    """Return a code object with those inside it, and those of the program's own code that it resumes."""
    source = source_of(code)
    return [*nested(code), *(nested(source) if source is not code else ())]


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for value in code.co_consts:
        if type(value) is types.CodeType:
            yield from nested(value)

"""Source that a capture was made with and that no guard names: code by its name, or files by their content.

Guards know the code of what an entry needs.  A rehearsal that ended in a graph break ran more than that: the functions
below the call that could not be captured.  An edit of these makes no entry wrong, but the break may be gone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import types
from collections.abc import Iterable
from typing import Any

from .. import _core
from .._core import is_a
from ..vocabulary.torch_code import TORCH
from ..vocabulary.written_forms import NotKept
from .code_hash import code_hash, nested
from .importable_names import find
from .refusals import NotMine

_HOLDERS = (staticmethod, classmethod, types.MethodType)


def content_hash(path: str) -> str:
    """Return the hash of a file; raises OSError."""
    facts = os.stat(path)
    return _hash(path, facts.st_mtime_ns, facts.st_size)


@functools.cache
def _hash(path: str, _time: int, _size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:32]


# ---- code by the name of its module and its own


def code_name(code: types.CodeType, modules: dict[str, str]) -> str | None:
    """Return the name by which `code_named` finds this very code; `modules`: file -> module."""
    name = f"{modules.get(code.co_filename)}:{code.co_qualname}"
    return name if code_named(name) is code else None


def code_named(name: str) -> types.CodeType | None:
    """Return the code of a function, or of one that is defined inside another; None where there is none, or several."""
    module, _, path = name.partition(":")
    found = find([module, path.partition(".<")[0]])
    if type(found) is property:
        found = found.fget
    while type(found) is not types.FunctionType or found.__code__.co_qualname != path.partition(".<")[0]:
        if type(found) in _HOLDERS:
            found = found.__func__
        elif type(found) is _core.Compiled:
            found = found.function
        elif type(found) is types.FunctionType and "__wrapped__" in _core.own_dict(found):
            found = _core.own_dict(found)["__wrapped__"]
        else:
            return None
    inside = [code for code in nested(found.__code__) if code.co_qualname == path]
    return inside[0] if len(inside) == 1 else None


def module_files() -> dict[str, str]:
    """Return the names of all modules by their files."""
    found = [(name, vars(module).get("__file__")) for name, module in [*sys.modules.items()] if _is_module(module)]
    return {path: name for name, path in reversed(found) if type(path) is str}


def _is_module(value: Any) -> bool:
    return is_a(value, types.ModuleType)


# ---- what was rehearsed beyond a break


def source_rows(codes: Iterable[types.CodeType]) -> list[tuple[str, str, types.CodeType | None]]:
    """Return (name of code, its hash, the code), or (file, hash of its content, None), of what is not torch's: its
    version is known.  Raises `NotKept`.
    """
    rows = {}
    modules = module_files()
    try:
        for code in codes:
            if not code.co_filename.startswith(TORCH):
                name = code_name(code, modules)
                row = (code.co_filename, content_hash(code.co_filename), None)
                rows[row[0] if name is None else name] = row if name is None else (name, code_hash(code), code)
    except OSError as error:
        raise NotKept("code was rehearsed that is in no file", str(error.filename)) from None
    return [rows[key] for key in sorted(rows)]


def check_sources(rows: list[Any]) -> None:
    """Raise `NotMine` where any of this was edited."""
    for name, wanted in rows:
        code = code_named(name)
        try:
            found = code_hash(code) if code is not None else content_hash(name)
        except OSError:
            raise NotMine(f"{name} is not there") from None
        if found != wanted:
            raise NotMine(f"{name} was edited")

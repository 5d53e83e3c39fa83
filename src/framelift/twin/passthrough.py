"""Probes in Python that do exactly what the replaced opcodes do: the reference meaning of every probe.

Two kinds of calls: `call` in Python, which understands star calls and adds a frame, and `operator.call`, which adds none
and therefore keeps `super()`, `locals()` and `sys._getframe` right, but needs star calls left plain (`without_frames`).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from opcode import opmap
from types import CellType, FunctionType
from typing import Any

from .dialect import EX_ARGS, EX_KWARGS, PROBES, Dialect

__all__ = ["passthrough", "without_frames"]

_UNBOUND_FREE = "cannot access free variable '{}' where it is not associated with a value in enclosing scope"


def passthrough(**instead: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """All probes; keyword arguments put others in their place."""
    own = globals()
    return {name: own[f"_{name}"] for name in PROBES} | instead


def without_frames(dialect: Dialect) -> tuple[Dialect, dict[str, Callable[..., Any]]]:
    """A dialect that leaves star calls plain, and the probes for it."""
    number = opmap["CALL_FUNCTION_EX"]
    rules = (*dialect.rules[:number], dialect.star_call, *dialect.rules[number + 1:])
    return replace(dialect, rules=rules), passthrough(call=operator.call)


def _call(callable: Any, /, *args: Any, **kwargs: Any) -> Any:
    if EX_ARGS in kwargs:
        starred = kwargs.pop(EX_ARGS)
        return callable(*starred, **kwargs.pop(EX_KWARGS, {}))
    return callable(*args, **kwargs)


def _undefined(name: str) -> NameError:
    return NameError(f"name '{name}' is not defined", name=name)


def _load_global(name: str) -> Any:
    frame = sys._getframe(1)
    try:
        return frame.f_globals[name]
    except KeyError:
        return _builtin(frame.f_builtins, name)


def _builtin(builtins: Any, name: str) -> Any:
    try:
        return builtins[name]
    except KeyError:
        raise _undefined(name) from None


def _store_global(value: Any, name: str) -> None:
    sys._getframe(1).f_globals[name] = value


def _delete_global(name: str) -> None:
    try:
        del sys._getframe(1).f_globals[name]
    except KeyError:
        raise _undefined(name) from None


def _load_name(name: str) -> Any:
    frame = sys._getframe(1)
    for namespace in (frame.f_locals, frame.f_globals):
        try:
            return namespace[name]
        except KeyError:
            continue
    return _builtin(frame.f_builtins, name)


_load_attr = getattr
_delete_attr = delattr


def _store_attr(value: Any, obj: Any, name: str) -> None:
    setattr(obj, name, value)


def _load_deref(cell: CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise NameError(_UNBOUND_FREE.format(name), name=name) from None


def _store_deref(value: Any, cell: CellType) -> None:
    cell.cell_contents = value


def _delete_deref(cell: CellType, name: str) -> None:
    _load_deref(cell, name)
    del cell.cell_contents


def _load_classderef(cell: CellType, name: str) -> Any:
    return _load_from_dict_or_deref(sys._getframe(1).f_locals, cell, name)


def _load_from_dict_or_deref(mapping: Any, cell: CellType, name: str) -> Any:
    try:
        return mapping[name]
    except KeyError:
        return _load_deref(cell, name)


def _load_from_dict_or_globals(mapping: Any, name: str) -> Any:
    frame = sys._getframe(1)
    for namespace in (mapping, frame.f_globals):
        try:
            return namespace[name]
        except KeyError:
            continue
    return _builtin(frame.f_builtins, name)


def _load_super_attr(super_global: Any, cls: type, self: Any, name: str, flags: int) -> Any:
    if super_global is super or flags & 2:
        return getattr(super_global(cls, self), name)
    return getattr(super_global(), name)


def _import_name(level: int, fromlist: Any, name: str) -> Any:
    frame = sys._getframe(1)
    try:
        importer = frame.f_builtins["__import__"]
    except KeyError:
        raise ImportError("__import__ not found") from None
    return importer(name, frame.f_globals, None if frame.f_code.co_flags & 1 else frame.f_locals, fromlist, level)


def _import_from(module: Any, name: str) -> Any:
    # The statement itself, over an importer that hands out the module we have: the messages are CPython's own.
    namespace: dict[str, Any] = {"__builtins__": {"__import__": lambda *_: module}}
    exec(_import_statement(name), namespace)
    return namespace[name]


@cache
def _import_statement(name: str) -> Any:
    return compile(f"from module import {name}", "<import_from>", "exec")


def _before_with(manager: Any) -> Any:
    return manager


def _make_function(function: FunctionType) -> FunctionType:
    return function


def _match_class(subject: Any, cls: Any, names: tuple[str, ...], count: int) -> tuple[Any, ...] | None:
    return _matcher(names, count)(subject, cls)


@cache
def _matcher(names: tuple[str, ...], count: int) -> Callable[..., Any]:
    captured = [f"v{n}" for n in range(count + len(names))]
    patterns = captured[:count] + [f"{name}={value}" for name, value in zip(names, captured[count:])]
    source = (f"def match(subject, cls):\n match subject:\n  case cls({', '.join(patterns)}):\n"
              f"   return ({''.join(value + ', ' for value in captured)})\n")
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    matcher: Callable[..., Any] = namespace["match"]
    return matcher

"""Probes in Python that do exactly what the replaced opcodes do: the reference meaning of every probe.

They are Python code and so add frames of their own: `sys._getframe`, `locals()` and `super()` called through the `call`
probe see that frame.  `few_frames` avoids it for all but star calls.
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

from bytecode.dialect import EX_ARGS, EX_KWARGS, PROBES, Dialect
from bytecode.encode import named
from bytecode.rule_writer import Writer

__all__ = ["few_frames", "passthrough"]

_UNDEFINED = "name '{}' is not defined"
_UNBOUND_LOCAL = "cannot access local variable '{}' where it is not associated with a value"
_UNBOUND_FREE = "cannot access free variable '{}' where it is not associated with a value in enclosing scope"


def passthrough(**instead: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """All probes; keyword arguments put others in their place."""
    own = globals()
    return {name: own[f"_{name}"] for name in PROBES} | instead


def few_frames(dialect: Dialect) -> tuple[Dialect, dict[str, Callable[..., Any]]]:
    """Probes of which only the star call adds a frame to a call, and the dialect for them.

    `operator.call` serves all other calls; being C, it keeps `super()`, `locals()` and `sys._getframe` right.  It does
    not know star calls, so the Python probe is put in its place just before one; the rest of the replacement is the
    real rule.
    """
    number = opmap["CALL_FUNCTION_EX"]
    rule = dialect.rules[number]
    assert rule is not None

    def star_call(w: Writer, arg: int) -> bytes:
        operands = 2 if dialect.version >= (3, 14) else 1 + (arg & 1)
        exchange = w.probe["star_call"] + named("SWAP", 3 + operands) + named("POP_TOP")
        return exchange + rule(w, arg)  # type: ignore[operator]

    rules = (*dialect.rules[:number], star_call, *dialect.rules[number + 1 :])
    return replace(dialect, rules=rules), passthrough(call=operator.call, star_call=_call)


def _call(callable: Any, /, *args: Any, **kwargs: Any) -> Any:
    if EX_ARGS in kwargs:
        named = kwargs.get(EX_KWARGS)
        return callable(*kwargs[EX_ARGS], **(named if isinstance(named, dict) else {}))  # 3.14: a probe for no keywords
    return callable(*args, **kwargs)


_MISSING: Any = object()


def _find(name: str, *namespaces: Any) -> Any:
    # Errors are raised outside of `except`, where the opcode would not have left a KeyError as their context either.
    for namespace in namespaces:
        try:
            return namespace[name]
        except KeyError:
            pass
    return _MISSING


def _found(value: Any, message: str, name: str, error: type[NameError] = NameError) -> Any:
    if value is _MISSING:
        raise error(message.format(name), **{"name": name} if error is NameError else {})
    return value


def _load_global(name: str) -> Any:
    frame = sys._getframe(1)
    return _found(_find(name, frame.f_globals, frame.f_builtins), _UNDEFINED, name)


def _store_global(value: Any, name: str) -> None:
    sys._getframe(1).f_globals[name] = value


def _delete_global(name: str) -> None:
    namespace = sys._getframe(1).f_globals
    _found(_find(name, namespace), _UNDEFINED, name)
    del namespace[name]


_load_attr = _test_attr = getattr
_delete_attr = delattr


def _store_attr(value: Any, obj: Any, name: str) -> None:
    setattr(obj, name, value)


def _load_deref(cell: CellType, name: str | tuple[str]) -> Any:
    if isinstance(name, tuple):
        return _found(_contents(cell), _UNBOUND_LOCAL, name[0], UnboundLocalError)
    return _found(_contents(cell), _UNBOUND_FREE, name)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _store_deref(value: Any, cell: CellType) -> None:
    cell.cell_contents = value


def _delete_deref(cell: CellType, name: str | tuple[str]) -> None:
    _load_deref(cell, name)
    del cell.cell_contents


def _load_super_attr(super_global: Any, cls: type, self: Any, name: str, flags: int) -> Any:
    if super_global is super or flags & 2:
        return getattr(super_global(cls, self), name)
    return getattr(super_global(), name)


def _import_name(level: int, fromlist: Any, name: str) -> Any:
    frame = sys._getframe(1)
    importer = _find("__import__", frame.f_builtins)
    if importer is _MISSING:
        raise ImportError("__import__ not found")
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


def _caught(_error: BaseException) -> None:
    return None


def _check_text(text: str) -> str:
    return text


def _spread(mapping: Any) -> Any:
    return mapping


def _iterate(iterable: Any) -> Any:
    return iterable


def _formatted(left: Any, right: Any) -> Any:
    return right


def _same_object(left: Any, right: Any) -> bool:
    return left is right


def _contains(item: Any, container: Any) -> bool:
    return item in container


def _match_kind(subject: Any) -> Any:
    return subject


def _match_class(subject: Any, cls: Any, names: tuple[str, ...], count: int) -> tuple[Any, ...] | None:
    return _matcher(names, count)(subject, cls)


@cache
def _matcher(names: tuple[str, ...], count: int) -> Callable[..., Any]:
    captured = [f"v{n}" for n in range(count + len(names))]
    patterns = captured[:count] + [f"{name}={value}" for name, value in zip(names, captured[count:])]
    source = (
        f"def match(subject, cls):\n match subject:\n  case cls({', '.join(patterns)}):\n"
        f"   return ({''.join(value + ', ' for value in captured)})\n"
    )
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    matcher: Callable[..., Any] = namespace["match"]
    return matcher

"""Class patterns of `match` statements: what CPython does for MATCH_CLASS, with attributes read through the probes."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import is_a
from ..boundary.becomes.arrays import Array
from ..boundary.becomes.opaque import Opaque
from ..recording.session import Session
from ..substitutes.python.abstract_classes import flags_fact
from ..vocabulary.class_reads import flags_of, module_of, name_of
from ..vocabulary.reasons import Interrupt


def match_class(subject: Any, cls: type, names: tuple[str, ...], count: int) -> Any:
    """MATCH_CLASS: isinstance, then attributes by position and by name; None when it does not match."""
    if not is_a(cls, type):
        raise TypeError(_NO_CLASS)
    if not _core.natively(isinstance, (subject, cls), None):
        return None
    itself, positional = _match_args(cls, count) if count else (False, ())
    found: list[Any] = [subject] if itself else []
    seen: list[str] = []
    for name in positional + names:
        if type(name) is not str:
            raise TypeError(f"__match_args__ elements must be strings (got {_shown_name(type(name))})")
        if name in seen:
            raise TypeError(f"{_shown_name(cls)}() got multiple sub-patterns for attribute {name!r}")
        seen.append(name)
        try:
            found.append(_core.read(subject, name))
        except AttributeError:
            return None
    return tuple(found)


def _match_args(cls: type, count: int) -> tuple[bool, tuple[str, ...]]:
    """Return what a number of patterns by position matches: whether the subject itself, and the names of attributes."""
    try:
        names = _core.read(cls, "__match_args__")
    except AttributeError:
        names, itself = (), bool(flags_of(cls) & _MATCHES_ITSELF)
    else:
        itself = False
        if type(names) is not tuple:
            raise TypeError(f"{_shown_name(cls)}.__match_args__ must be a tuple (got {_shown_name(type(names))})")
    allowed = 1 if itself else len(names)
    if allowed < count:
        plural = "" if allowed == 1 else "s"
        raise TypeError(f"{_shown_name(cls)}() accepts {allowed} positional sub-pattern{plural} ({count} given)")
    return itself, names[:count]


_MATCHES_ITSELF = 1 << 22  # flag of classes whose instances are what one pattern by position matches


def _text_of_no_class() -> str:
    """Return Python's error message for a pattern that calls something else than a class: releases differ."""
    number: Any = 0
    try:
        match number:
            case number():
                pass
    except TypeError as error:
        return str(error)
    raise AssertionError


_NO_CLASS = _text_of_no_class()


def _shown_name(cls: type) -> str:
    """The name of a class in messages of C code: with the module where C code made it."""
    if _core.is_python_class(cls) or module_of(cls) == "builtins":
        return name_of(cls)
    return f"{module_of(cls)}.{name_of(cls)}"


_PATTERNS = 1 << 5 | 1 << 6  # flags of classes of sequences, of mappings


def match_kind(session: Session, subject: Any) -> None:
    """A pattern asks whether the class is one of sequences or mappings, by flags that registering it there sets."""
    cls = type(subject)
    if cls is Opaque:
        raise Interrupt("opaque-object", f"{subject.__class__.__module__}.{subject.__class__.__qualname__}")
    if issubclass(cls, Array) and flags_of(subject.__class__) & _PATTERNS != flags_of(cls) & _PATTERNS:
        raise Interrupt("unknown-callable", f"a sequence pattern over a {name_of(subject.__class__)}")
    if not _core.is_internal(cls):
        flags_fact(session, cls, _PATTERNS)

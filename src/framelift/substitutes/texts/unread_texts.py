"""Calls of C code that are given a text nobody has read (graph/symbols/unread_text.py).

Where the call only hands the text on, the call rule continues; what makes texts of texts gives such a text again; all
others would read its letters.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import LEAF_TYPES
from ...calls.pure import lookup
from ...graph.symbols.unread_text import MARK, UnreadText
from ...vocabulary.plain_types import DICTIONARIES

if TYPE_CHECKING:
    from ...recording.session import Session

#: do not look at the letters of their arguments
HAND_ON = [
    callable,
    list,
    tuple,
    list.append,
    list.insert,
    list.extend,
    dict.get,
    dict.setdefault,
    dict.pop,
    dict.update,
    dict.items,
    dict.keys,
    dict.values,
    dict.copy,
    dict.popitem,
    *DICTIONARIES,
    types.MappingProxyType,
    *(vars(types.MappingProxyType)[name] for name in ("get", "items", "keys", "values", "copy")),
    list.copy,
    list.pop,
    iter,
    next,
    enumerate,
    zip,
    reversed,
    map,
    filter,
    *(kind for kind in vars(itertools).values() if is_a(kind, type)),
    len,
    tuple.__new__,
    types.FrameType.clear,
    BaseException.with_traceback,
]
#: run Python code, whose names and texts they are given themselves
_RUN = frozenset({builtins.__build_class__, exec, eval})
#: give a text with those of their arguments in it
_MAKE_TEXTS = frozenset(
    {str.format, str.join, str.format_map, str, repr, format, object.__format__, object.__repr__, object.__str__}
)


#: ask an object by its class or by a name, whatever it holds
_ASK_BY_NAME = frozenset(
    {getattr, hasattr, setattr, delattr, object.__setattr__, object.__delattr__, object.__getattribute__}
)
_ASK_NOTHING = frozenset({isinstance, issubclass, type, id, super})


def handle(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a call that may have such a text among its arguments; NotImplemented leaves it to the call rule."""
    known, held = lookup.resolve(callable_)
    directly = any(type(value) is UnreadText for value in (*held, *args, *kwargs.values()))
    if callable_ is type and len(args) == 1 and directly:
        return str
    if _is_in(known, _MAKE_TEXTS):
        return as_unread(session, _core.making_text(callable_, args, kwargs))
    if known is isinstance and directly:
        return NotImplemented if all(type(kind) is type for kind in _classes(args[1])) else session.text_is_read()
    if _is_in(known, _ASK_NOTHING):
        return NotImplemented if not directly else session.text_is_read()
    if _is_in(known, _ASK_BY_NAME):
        asked = (*held, *args)[:2]
        return NotImplemented if not any(type(one) is UnreadText for one in asked) else session.text_is_read()
    if _is_in(known, HAND_ON) and not (known is len and directly):
        return NotImplemented
    if _is_in(known, _RUN):
        return NotImplemented if not directly else session.text_is_read()
    if _makes_instances(callable_) or _begins_exception(known) or issubclass(type(callable_), functools.partial):
        return NotImplemented
    return session.text_is_read()


def _is_in(callable_: Any, table: Iterable[Any]) -> bool:
    return any(callable_ is one for one in table)


def _classes(given: Any) -> tuple[Any, ...]:
    return given if type(given) is tuple else (given,)


def _makes_instances(callable_: Any) -> bool:
    """Return whether it is a class whose instances are made by object, by an exception's class or in Python; or an
    instance, or a class of a metaclass, whose call is Python.
    """
    if not is_a(callable_, type):
        return is_a(_core.type_lookup(type(callable_), "__call__", None), types.FunctionType)
    if type(callable_) is not type:
        return is_a(_core.type_lookup(type(callable_), "__call__", None), types.FunctionType)
    maker = _core.type_lookup(callable_, "__new__", None)
    if is_a(maker, staticmethod):
        maker = maker.__func__
    by_python = is_a(maker, types.FunctionType) or maker is vars(object)["__new__"]
    return issubclass(callable_, BaseException) or by_python


def _begins_exception(known: Any) -> bool:
    owner = getattr(known, "__objclass__", None)
    return owner is not None and issubclass(owner, BaseException) and known is vars(owner).get("__init__")


def as_unread(session: Session, text: Any) -> Any:
    """A text as captured code sees it: one with the mark of others in it is not known either."""
    if not is_a(text, str) or type(text) is UnreadText or not session.has_texts or not _shows(text):
        return text
    made = _core.unread_text() if type(text) is str else None  # one of a subclass is the program's own
    return session.text_is_read() if made is None else made


def _shows(text: str) -> bool:
    """Return whether there is a letter of such a text in another, maybe as `ascii` writes it."""
    letters = str.__str__(text)
    return any(letter in letters for letter in MARK) or ascii(MARK)[1:9] in letters


_core.connect(
    unread_text=UnreadText,
    unread_mark=MARK,
    unread_text_handler=handle,
    leaf_types=(*LEAF_TYPES, types.ModuleType, type(torch.default_generator)),
)

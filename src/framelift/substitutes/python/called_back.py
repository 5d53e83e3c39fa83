"""Callables that call an argument from C, and what they are given instead of a C callable that must not run unwatched.

`map(str, xs)` would call `str` past the probes.  A small captured function takes its place, whose one call is seen
by the call rule like any other.  Only callbacks that no table declares pure are replaced.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
import types
from collections.abc import Callable
from typing import Any

from ... import _core
from ...calls.call_tables import substitute
from ...recording.session import Session
from ...vocabulary.own_code import captured_functions
from .lazy_containers import natively

#: where each of them takes its callback: position, and name where it can be given by name (max and min:
#: numbers/pure_calls.py)
CALLBACKS: tuple[tuple[Any, int | None, str | None], ...] = (
    (map, 0, None),
    (filter, 0, None),
    (sorted, None, "key"),
    (list.sort, None, "key"),
    (functools.reduce, 0, None),
    (functools.cmp_to_key, 0, "mycmp"),
    (itertools.accumulate, 1, "func"),
    (itertools.starmap, 0, None),
    (itertools.groupby, 1, "key"),
    (itertools.takewhile, 0, None),
    (itertools.dropwhile, 0, None),
    (itertools.filterfalse, 0, None),
    (re.Pattern.sub, 1, "repl"),
    (re.Pattern.subn, 1, "repl"),
    (bisect.bisect_left, None, "key"),
    (bisect.bisect_right, None, "key"),
    (operator.call, 0, None),
)

_FREE = frozenset({1, 5, 6, 8})  # Kind in csrc/calls.cpp: Pure, Higher, Bound, Native

_scope = captured_functions(
    """\
def watch(callback):
    def call(*args, **kwargs):
        return callback(*args, **kwargs)
    return call
""",
    "<callback>",
)


def watched(session: Session, callback: Any) -> Any:
    """The callback itself where C may call it unseen, else a captured function that calls it."""
    if issubclass(type(callback), type) and _core.is_python_class(callback):
        session.note_class(callback)  # C code makes its instances
    function = callback.__func__ if type(callback) is types.MethodType else callback
    if (
        type(function) is types.FunctionType
        or not callable(function)
        or type(function) is str
        or session.classify(callback)[0] in _FREE
    ):
        return callback
    made = _scope["watch"](callback)
    _core.mark_internal(made)
    return made


def calling_back(place: int | None, name: str | None) -> Callable[..., Any]:
    """A handler that gives C code a callback it may call."""

    def call(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        if place is not None and len(args) > place:
            args = (*args[:place], watched(session, args[place]), *args[place + 1 :])
        if name in kwargs:
            kwargs[name] = watched(session, kwargs[name])
        return natively(callable_, args, kwargs)

    return call


for _callable, _place, _name in CALLBACKS:
    substitute(_callable)(calling_back(_place, _name))


@substitute(iter)
def _iter(session: Session, callable_: Any, obj: Any, /, *sentinel: Any) -> Any:
    """With two arguments the first is called until it gives the second."""
    return _core.natively(callable_, (watched(session, obj) if sentinel else obj, *sentinel), None)

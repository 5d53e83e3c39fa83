"""The tables of the call rule: which callable is what.  Filled by lookup.py, basics.py and special_cases.py.

Keys are the real callables.  The native core asks `verdict` once per callable and remembers the answer.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from ..recording.session import Session
from ..torch_ports.port import MissingStub
from ..vocabulary.reasons import Interrupt

#: handler(session, callable_, args, kwargs): what runs in place of a callable
Handler = Callable[["Session", Any, tuple[Any, ...], dict[str, Any]], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: safe with any argument: reads nothing of its arguments but through Python frames, which are watched
PURE: dict[int, Any] = {}
#: safe unless an argument is a handle (an external instance), which it would read behind our back
PURE_ON_INTERNALS: dict[int, Any] = {}
#: as pure, but it calls its arguments: C callables among them must be declared too
HIGHER_ORDER: dict[int, Any] = {}
#: handler(session, callable_, args, kwargs) runs instead, with the probes paused
SUBSTITUTES: dict[int, tuple[Any, Handler]] = {}
#: the same for every Python function of one code: wrappers that one decorator makes
CODE_HANDLERS: dict[Any, Handler] = {}


def pure(*callables: Any) -> None:
    """Declare C callables that may be called natively with any argument."""
    PURE.update((id(c), c) for c in callables)


def pure_on_internals(*callables: Any) -> None:
    """Declare C callables that may be called natively when no argument is a handle."""
    PURE_ON_INTERNALS.update((id(c), c) for c in callables)


def substitute(*callables: Any) -> Callable[[_Function], _Function]:
    """Register what runs in place of exactly these callables, in one of the forms that `handler_form` takes."""

    def register(function: _Function) -> _Function:
        assert all(map(callable, callables)), callables
        there = [c for c in callables if type(c) is not MissingStub]
        again = [c for c in there if id(c) in SUBSTITUTES]
        assert not again, f"{again} have a handler already"
        handler = handler_form(function)
        SUBSTITUTES.update((id(c), (c, handler)) for c in there)
        return function

    return register


_RAW = ("session", "callable_", "args", "kwargs")


def handler_form(function: Callable[..., Any]) -> Handler:
    """Return a function as a handler.  Its parameters are the session, then those of the callable that it stands for;
    a parameter `callable_` between them is given the callable itself.

    Arguments that do not fit them are refused by the callable, in its own words.  A function that takes any call may
    have the parameters of a handler instead, `(session, callable_, args, kwargs)`.
    """
    code: types.CodeType | None = getattr(function, "__code__", None)
    if code is None or code.co_varnames[: code.co_argcount] == _RAW:
        return function
    names, count, by_place = code.co_varnames, code.co_argcount, code.co_posonlyargcount
    gets_callable = names[1:2] == ("callable_",) and count > 1
    most = sys.maxsize if code.co_flags & inspect.CO_VARARGS else count
    least = count - len(function.__defaults__ or ())
    named = frozenset(names[count : count + code.co_kwonlyargcount])
    needed = named - (function.__kwdefaults__ or {}).keys()

    def fits(given: int, kwargs: dict[str, Any]) -> bool:
        others = kwargs.keys() - named.union(names[max(given, by_place) : count])
        return (
            (given >= by_place or given >= least)
            and given <= most
            and needed.union(names[max(given, by_place) : least]) <= kwargs.keys()
            and (not others or bool(code.co_flags & inspect.CO_VARKEYWORDS))
            and others.isdisjoint(names[by_place : min(given, count)])
        )

    @functools.wraps(function)
    def handler(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = (session, callable_, *args) if gets_callable else (session, *args)
        if kwargs or needed:
            if fits(len(given), kwargs):
                return function(*given, **kwargs)
        elif least <= len(given) <= most:
            return function(*given)
        try:
            inspect.signature(callable_).bind(*args, **kwargs)
        except (TypeError, ValueError):  # ValueError: its signature is not known
            callable_(*args, **kwargs)  # raises
        name = getattr(callable_, "__qualname__", "a callable")
        raise Interrupt("unknown-callable", f"{name} with other arguments than framelift knows")

    return handler

"""Substitutes for the standard library: caches, settings of the process, questions about the interpreter, levels of
loggers, single dispatch, callables of the operator module.
"""

from __future__ import annotations

import _warnings
import functools
import importlib
import importlib.util
import inspect
import logging
import operator
import os
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from ... import _core
from ..._core import is_a
from ...boundary.gateway import let_in
from ...calls.call_tables import CODE_HANDLERS, substitute
from ...guards.checks import check
from ...recording.session import Session
from ...vocabulary.origins import const
from ...vocabulary.own_code import is_beginning
from ...vocabulary.quiet_capture import quietly
from ...vocabulary.reasons import Interrupt

_RE: Any = re  # its cache is private in typeshed
#: classes of its flags; CPython 3.13 has one for the 0 that nobody gave
_FLAGS = (re.RegexFlag, vars(re).get("_ZeroSentinel", re.RegexFlag))


@substitute(_RE._compile)
def _re_compile(session: Session, pattern: Any, flags: Any) -> Any:
    """A pattern is a value of its text and flags; the cache around it is not part of the program."""
    flags = int.__index__(flags) if type(flags) in _FLAGS else flags
    if type(pattern) not in (str, bytes, re.Pattern) or type(flags) is not int or flags & re.DEBUG:
        raise Interrupt("unknown-callable", "re.compile of other than text")
    with quietly(raising=True):
        try:
            return _RE._compile(pattern, flags)
        except Warning as warning:
            raise Interrupt("unknown-callable", f"a pattern that makes re warn: {warning}") from None


@substitute(
    sys.get_int_max_str_digits,
    sys.getrecursionlimit,
    sys.getswitchinterval,
    threading.get_ident,
    threading.get_native_id,
    os.getpid,
    os.getppid,
    os.getuid,
    os.geteuid,
    os.getgid,
    os.getegid,
    os.cpu_count,
)
def _setting(session: Session, callable_: Any) -> Any:
    """A number that belongs to the process or the thread: what it was is a guard."""
    value = callable_()
    session.guard_answer(callable_, value)
    return value


@substitute(inspect.unwrap)
def _unwrap(session: Session, func: Any, *, stop: Any = None) -> Any:
    """The chain of `__wrapped__`; its length matters only where it reaches the recursion limit."""
    function, seen = func, [func]
    while (wrapped := _wrapped(function)) is not _END and (stop is None or not _core.captured(stop, (function,), {})):
        function = wrapped
        if any(function is one for one in seen) or len(seen) >= sys.getrecursionlimit():
            raise Interrupt("unknown-callable", "inspect.unwrap of a wrapper loop")
        seen.append(function)
    length = len(seen)
    if length > 2:  # no smaller limit lets this very call happen
        session.guard(const(sys.getrecursionlimit), "CHECK", (lambda ask: ask() >= length, f"() >= {length}"), length)
    return function


@substitute(importlib.import_module)
def _import_module(session: Session, name: Any, package: Any = None) -> Any:
    """As an import statement."""
    if type(name) is not str:
        raise Interrupt("unsupported-code", "importlib.import_module of other than a name")
    if name.startswith("."):
        if not package:
            return importlib.import_module(name, package)  # raises
        name = importlib.util.resolve_name(name, package)
    module = session.import_name({}, 0, ("__name__",), name)
    if not is_a(module, types.ModuleType):
        raise Interrupt("unsupported-code", "importlib.import_module of other than a module")
    return module


@check
def _is_missing(name: str, _modules: Any) -> bool:
    package = name.rpartition(".")[0]
    there = name in sys.modules or package and package not in sys.modules  # finders are asked below packages that are
    return not there and importlib.util.find_spec(name) is None


@substitute(importlib.util.find_spec)
def _find_spec(session: Session, name: Any, package: Any = None) -> None:
    """Return None for a module that no finder finds.  The specification of one that is there is made in each call."""
    try:
        missing = type(name) is str and _is_missing(name, None)
    except Exception:  # noqa: BLE001  of a finder of the program's
        missing = False
    if not missing:
        raise Interrupt("unsupported-code", "importlib.util.find_spec of a module that is there")
    session.guard(const(sys.modules), "ABSENT", name, name)
    said = f": {name!r} cannot be imported"
    session.guard(const(sys.modules), "CHECK", (functools.partial(_is_missing, name), said), name)


_END = object()


def _wrapped(function: Any) -> Any:
    if sys.version_info >= (3, 13) and is_a(function, type):
        return _END
    try:
        return _core.read(function, "__wrapped__")
    except AttributeError:
        return _END


@substitute(sys.exc_info)
def _exc_info(session: Session) -> Any:
    found = sys.exc_info()
    _check_handled_inside(session, found[1])
    return found


if hasattr(sys, "exception"):

    @substitute(sys.exception)
    def _exception(session: Session) -> Any:
        found = sys.exception()
        _check_handled_inside(session, found)
        return found


@check
def _is_empty(ask: Callable[[], Any]) -> bool:
    """No exception is handled."""
    return ask()[1] is None


def _check_handled_inside(session: Session, error: BaseException | None) -> None:
    """Captured code must handle the exception: a frame of the rehearsal caught it.  None: nor does the caller."""
    if error is None:
        session.guard(const(sys.exc_info), "CHECK", (_is_empty, "() is empty"))
        return
    trace = error.__traceback__
    while trace is not None:  # one of them may be a generator's, which waits outside of all frames
        frame: types.FrameType | None = trace.tb_frame
        while frame is not None:
            if is_beginning(frame.f_code):
                return
            frame = frame.f_back
        trace = trace.tb_next
    raise Interrupt("unsupported-code", "the exception that the caller of the compiled function handles")


#: CPython 3.14 has a lock around changes of the filters
_LOCKS = [vars(_warnings)[name] for name in ("_acquire_lock", "_release_lock") if name in vars(_warnings)]


@substitute(vars(_warnings)["_filters_mutated_lock_held" if _LOCKS else "_filters_mutated"])
def _filters_mutated(session: Session) -> None:
    """The filters were changed: those that remember what they showed must look again, outside too."""
    session.write("call", vars(warnings)["_filters_mutated"], None, ())


def _no_lock(session: Session) -> None:
    """Nothing that other threads see changes before the entry runs."""


for _lock in _LOCKS:
    substitute(_lock)(_no_lock)


# ---- logging: whether a message would be logged is a fact about levels; asking changes only a cache ----


@substitute(logging.Logger.isEnabledFor)
def _is_enabled_for(session: Session, self: logging.Logger, level: int) -> bool:
    if _core.read(self, "disabled"):
        return False
    below: bool = _core.read(_core.read(self, "manager"), "disable") >= level
    answer = not below and level >= _core.captured(_core.read(self, "getEffectiveLevel"), (), None)
    if self._cache.get(level, answer) is not answer:  # type: ignore[attr-defined]  # private in typeshed
        raise Interrupt("unknown-callable", "Logger.isEnabledFor (a level was changed without clearing its cache)")
    return answer


# ---- functools.singledispatch: the choice of an implementation, without the cache of weak references that ----


def _dispatch(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`generic.dispatch(cls)`."""
    index = function.__code__.co_freevars.index("registry")
    registry = function.__closure__[index].cell_contents
    if not _core.is_internal(function):
        world = session.world
        registry = let_in(
            world,
            registry,
            (world.functions.origins.get(id(function)) or const(function)).to("cell", index).to("contents"),
        )
    cls = args[0] if args else kwargs["cls"]
    if cls in registry:
        return registry[cls]
    find = functools._find_impl  # type: ignore[attr-defined]  # private in typeshed
    return _core.captured(find, (cls, registry), None)


for _part in functools.singledispatch.__code__.co_consts:
    if is_a(_part, types.CodeType) and _part.co_name == "dispatch" and "registry" in _part.co_freevars:
        CODE_HANDLERS[_part] = _dispatch


# ---- operator.attrgetter, itemgetter and methodcaller: their reads and calls are done by captured code ----


_CALL_ATTRGETTER = vars(operator.attrgetter)["__call__"]
_CALL_METHODCALLER = vars(operator.methodcaller)["__call__"]


@substitute(_CALL_ATTRGETTER)
def _attrgetter(session: Session, getter: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        return getter(*args, **kwargs)  # raises
    found = []
    for path in getter.__reduce__()[1]:
        value = args[0]
        for name in path.split("."):
            value = _core.read(value, name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


@substitute(_CALL_METHODCALLER)
def _methodcaller(session: Session, caller: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        return caller(*args, **kwargs)  # raises
    made, arguments = caller.__reduce__()
    keywords = {}
    if is_a(made, partial):  # made with keywords: partial(methodcaller, name, **keywords)
        arguments, keywords = (*made.args, *arguments), made.keywords
    name, *arguments = arguments
    return _core.captured(_core.read(args[0], name), tuple(arguments), keywords)

"""Shadows of external objects that are not containers: exceptions, simple namespaces, locks.

Each is a row of `shadows.KINDS`, like the containers: how an empty copy is made, how it is filled, what is
remembered of it to see a change at the end.
"""

from __future__ import annotations

import builtins
import threading
import types
from collections.abc import Callable
from typing import Any

from ... import _core
from ..._core import is_a
from ...guards.checks import check
from ...vocabulary.class_reads import basicsize_of, mro_of
from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt
from ..world import World
from .containers import KINDS, CopyRule, LetIn

# ---- namespaces -----------------------------------------------------------------------------------------------------


def _fill_nothing(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    """Its attributes are all there is, and those are imported for every shadow."""


KINDS[types.SimpleNamespace] = CopyRule(lambda v: types.SimpleNamespace.__new__(type(v)), _fill_nothing, lambda c: None)


# ---- exceptions -----------------------------------------------------------------------------------------------------

#: what exceptions of these classes hold besides arguments and chain
EXCEPTION_FIELDS: dict[type, tuple[str, ...]] = {
    BaseException: (),
    StopIteration: ("value",),
    SystemExit: ("code",),
    NameError: ("name",),
    AttributeError: ("name", "obj"),
    ImportError: ("msg", "name", "path"),
}
if "name_from" in vars(ImportError):
    EXCEPTION_FIELDS[ImportError] += ("name_from",)
#: where it was raised; of one that is external nothing is to be seen but which object it is (`importer`)
TRACE: Any = BaseException.__traceback__
CHAIN: dict[str, Any] = {"__cause__": BaseException.__cause__, "__context__": BaseException.__context__}


def exception_fields(kind: type) -> dict[str, Any] | None:
    """The descriptors of a built-in exception's own fields; None where it holds more than is known."""
    known = next(k for k in mro_of(kind) if k in EXCEPTION_FIELDS)
    if basicsize_of(kind) == known.__basicsize__:
        return {name: vars(known)[name] for name in EXCEPTION_FIELDS[known]}
    return None


def was_raised_inside(error: BaseException) -> bool:
    """Return whether an exception went through frames of captured code."""
    trace = TRACE.__get__(error)
    return trace is not None and not _core.is_external(trace)


_ARGS, _SUPPRESS = (vars(BaseException)[name] for name in ("args", "__suppress_context__"))


def _fill_exception(fields: dict[str, Any]) -> Callable[[World, Any, Any, Origin, LetIn], None]:
    def fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
        for name, slot in {"args": _ARGS, **fields, **CHAIN, "__traceback__": TRACE}.items():
            slot.__set__(copy, let_in(world, slot.__get__(value), origin.to("attr", name)))
        suppress = _SUPPRESS
        world.guard(origin.to("attr", "__suppress_context__"), "EQ", suppress.__get__(value))
        suppress.__set__(copy, suppress.__get__(value))

    return fill


def _exception_snapshot(fields: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    slots = {"args": _ARGS, **fields, **CHAIN, "__suppress_context__": _SUPPRESS, "__traceback__": TRACE}
    return lambda copy: {name: slot.__get__(copy) for name, slot in slots.items()}


def _empty_of(kind: Any) -> Callable[[Any], Any]:
    return lambda value: kind.__new__(type(value))


def _add_exceptions() -> None:
    for kind in vars(builtins).values():
        if is_a(kind, type) and issubclass(kind, BaseException):
            fields = exception_fields(kind)
            if fields is not None:
                KINDS[kind] = CopyRule(_empty_of(kind), _fill_exception(fields), _exception_snapshot(fields))


_add_exceptions()


# ---- locks ----------------------------------------------------------------------------------------------------------
# A lock that nobody holds is taken and given back inside a private one: the program as a whole is what another thread
# would wait for.


@check
def _is_free(now: Any) -> bool:
    return not is_held(now)


def _fill_lock(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    if is_held(value):
        raise Interrupt("opaque-object", "lock that is held")
    world.guard(origin, "CHECK", (_is_free, "is not held"), "held")


def is_held(lock: Any) -> bool:
    """Return whether any thread holds the lock."""
    if is_a(lock, _LOCK):
        return lock.locked()
    return "count=0" not in repr(lock)  # a re-entrant lock shows it in no other way


_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())
for _kind in (_LOCK, _RLOCK):
    KINDS[_kind] = CopyRule(lambda v: threading.Lock() if is_a(v, _LOCK) else threading.RLock(), _fill_lock, is_held)

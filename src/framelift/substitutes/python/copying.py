"""Copies of handles: `object.__reduce_ex__` and `object.__getstate__` read through the probes; and what `copy.deepcopy`
asks of identities.

It asks which objects it has copied already, and whether a value is its own copy.  Neither needs an address.  It notes
its copies under addresses in a dictionary made inside: what is found there follows from which of the objects met are
one object, and that is guarded (mutable ones are different objects) or of no interest: values that are their own
copies are never noted.
"""

from __future__ import annotations

import copy
import copyreg
import types
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.gateway import is_handle_class
from ...boundary.records import ABSENT
from ...bytecode import original_of
from ...calls.call_tables import substitute
from ...recording.session import Session
from ...vocabulary.class_reads import dictoffset_of, members_of, module_of, mro_of, name_of
from ...vocabulary.own_code import asking
from ...vocabulary.reasons import Interrupt

_MAKERS: Any = copyreg  # its functions that make objects are private in typeshed


#: types of which copies are refused, and why
NOT_COPIED: dict[type, str] = {}
_OVER_OTHERS = (enumerate, zip, map, filter)  # and those of itertools


def _is_handle(obj: Any) -> bool:
    return _core.is_external(obj) and is_handle_class(type(obj))


def slots_of(cls: type) -> list[str]:
    """The names of a class's slots as copyreg lists them, without the note it leaves on the class."""
    names: list[str] = []
    for base in mro_of(cls):
        slots = members_of(base).get("__slots__", ())
        for name in (slots,) if is_a(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            private = name.startswith("__") and not name.endswith("__") and name_of(base).lstrip("_")
            names.append(f"_{private}{name}" if private else name)
    return names


@substitute(copyreg._slotnames)  # type: ignore[attr-defined]  # private in typeshed
def _slotnames(session: Session, cls: Any) -> list[str]:
    return slots_of(cls)


def _default_state(obj: Any) -> Any:
    """Return the result of `object.__getstate__`: the attributes of the instance, with those in slots beside them."""
    state: Any = None
    if dictoffset_of(type(obj)):  # C code does not ask the object for it
        state = dict(_core.captured(object.__getattribute__, (obj, "__dict__"), None).copy()) or None
    slots = {}
    for name in slots_of(type(obj)):
        try:
            slots[name] = _core.read(obj, name)
        except AttributeError:
            continue
    return (state, slots) if slots else state


def _overridden(session: Session, obj: Any, name: str) -> bool:
    return session.lookup(type(obj), name) not in (ABSENT, vars(object).get(name, ABSENT))


@substitute(*([object.__getstate__] if hasattr(object, "__getstate__") else ()))
def _getstate(session: Session, obj: Any, /) -> Any:
    if not _is_handle(obj):
        return _core.natively(object.__getstate__, (obj,), None)
    _check_class(session, obj)
    return _default_state(obj)


def _answers_reads(session: Session, obj: Any) -> bool:
    """Return whether code of the program may run when C code reads an attribute."""
    fallback = session.lookup(type(obj), "__getattr__")
    return _overridden(session, obj, "__getattribute__") or fallback not in (ABSENT, torch.nn.Module.__getattr__)


def _check_class(session: Session, obj: Any) -> None:
    # copyreg asks the class for its slots
    if session.lookup(type(type(obj)), "__getattribute__") is not type.__getattribute__:
        raise Interrupt("callable-on-handle", "a copy of an object whose class answers reads itself")


@substitute(object.__reduce_ex__)
def _reduce_ex(session: Session, obj: Any, protocol: Any, /) -> Any:
    if not _is_handle(obj):
        if _core.is_external(obj):
            raise Interrupt("callable-on-handle", "object.__reduce_ex__")
        for cls in mro_of(type(obj)):
            if cls in NOT_COPIED:
                raise Interrupt("torch-operation", NOT_COPIED[cls])
        if (type(obj) in _OVER_OTHERS or module_of(type(obj)) == "itertools") and session.shadow_of(obj) is not None:
            raise Interrupt(
                "callable-on-handle", f"a copy of {name_of(type(obj))}, which continues with the same iterator"
            )
        return _core.natively(object.__reduce_ex__, (obj, protocol), None)
    answers, overridden = _answers_reads(session, obj), _overridden(session, obj, "__reduce__")
    if answers or overridden:
        try:
            reduce = _core.read(obj, "__reduce__")
        except AttributeError:
            overridden = False  # as C code: the usual way then
        if overridden:
            return _core.captured(reduce, (), None)
    if type(protocol) is not int or protocol < 2:
        raise Interrupt("callable-on-handle", "object.__reduce_ex__")
    _check_class(session, obj)
    if _overridden(session, obj, "__getnewargs_ex__"):
        raise Interrupt("callable-on-handle", "a copy of an object with a __getnewargs_ex__")
    own = _overridden(session, obj, "__getnewargs__")
    made: tuple[Any, ...] = _special(session, obj, "__getnewargs__") if own else ()
    return _MAKERS.__newobj__, (type(obj), *made), _state(session, obj), None, None


def _special(session: Session, obj: Any, name: str) -> Any:
    """The method of the class is called: the object is not asked for it."""
    method = session.lookup(type(obj), name)
    if type(method) is types.FunctionType:
        return _core.captured(method, (obj,), None)
    if _answers_reads(session, obj):
        raise Interrupt("callable-on-handle", f"a copy of an object whose {name} is no function")
    return _core.captured(_core.read(obj, name), (), None)


def _state(session: Session, obj: Any) -> Any:
    if not _overridden(session, obj, "__getstate__") and not _answers_reads(session, obj):
        return _default_state(obj)
    getstate = _core.read(obj, "__getstate__")
    if getstate == object.__getstate__.__get__(obj):
        return _default_state(obj)
    return _core.captured(getstate, (), None)


# ---- what copy.deepcopy asks

_COPY = vars(copy)
_DISPATCH: dict[type, Any] = _COPY["_deepcopy_dispatch"]
#: the classes whose objects are their own copies: CPython 3.14 has a set of them, before that they share a copier
_ATOMIC_TYPES, _ATOMIC = _COPY.get("_atomic_types", frozenset()), _COPY.get("_deepcopy_atomic")
#: gives back its argument where all items of a tuple are their own copies
_TUPLE = _COPY["_deepcopy_tuple"]
#: code that compares a value with the copy it has just made of it
_COMPARING = frozenset((copy.deepcopy.__code__, _TUPLE.__code__))


def is_copying(session: Session) -> bool:
    """Return whether the copy module asks, for a memo that was made inside."""
    frame = asking()
    if frame is None or frame.f_globals is not _COPY:
        return False
    memo = frame.f_locals.get("memo", frame)  # None: it makes one next
    return memo is None or (type(memo) is dict and session.record_of(memo) is None)


def copies_to_itself(session: Session, value: Any) -> bool:
    """Return whether the copiers of a plain value, as captured code sees them, give back what they are given: it is not
    noted then.
    """
    table, atomic = _as_seen(session, _DISPATCH), _as_seen(session, _ATOMIC_TYPES)
    if type(atomic) in (set, frozenset) and type(value) in atomic:
        return True
    copier = table.get(type(value)) if type(table) is dict else None
    if copier is _TUPLE:
        return all(copies_to_itself(session, item) for item in value)
    return copier is not None and copier is _ATOMIC


def _as_seen(session: Session, table: Any) -> Any:
    known = session.record_of_original(table)
    return table if known is None else known.seen


def is_its_own_copy(session: Session, left: Any, right: Any) -> bool:
    """Return whether the copy module asks if a value is its own copy, and was given back the value itself."""
    if left is not right:
        return False
    frame = asking()
    return frame is not None and original_of(frame.f_code) in _COMPARING and copies_to_itself(session, left)

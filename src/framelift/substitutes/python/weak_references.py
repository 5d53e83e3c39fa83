"""Weak references and the collector: what a reference still leads to is a fact only where something is known to hold
the object.

A rehearsal holds objects longer than the program does (arguments of calls in progress, what the world remembers),
never shorter.  So a dead referent is dead in the program too; a live one must be seen to be held by captured code
itself.
"""

from __future__ import annotations

import _weakrefset
import functools
import gc
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import is_constant, is_leaf
from ...boundary.becomes.opaque import opaque_for
from ...boundary.becomes.reloaded_types import known_kind
from ...boundary.facts.holders import is_held, is_in_a_frame
from ...boundary.facts.released_objects import may_have_died, root_of
from ...boundary.gateway import is_handle_class, let_in
from ...bytecode import original_of
from ...calls.call_tables import substitute
from ...calls.frame_views import caller
from ...calls.pure import lookup
from ...vocabulary.class_reads import members_of, mro_of, qualname_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session


def target_of(reference: Any) -> Any:
    """Return the target of a weak reference, without calling a method of a subclass."""
    return weakref.ref.__call__(reference)


def _living(session: Session, target: Any) -> Any:
    """An external object that a weak reference leads to, where captured code let go of nothing that held it."""
    if target is None or is_constant(target) or is_leaf(target) or is_in_a_frame(target):
        return target
    record = session.record_of(target)
    root = root_of(session.world, target)
    if (
        root is not None
        and not is_in_a_frame(root)
        or may_have_died(session.world, target if record is None else record.original)
    ):
        raise Interrupt("unsupported-code", "a weak reference to an object that may be dead by now")
    return target


def _holds(session: Session, target: Any) -> bool:
    """Return whether a running frame of captured code, or an object of the program, holds the target."""
    if is_in_a_frame(target):
        return True
    if is_a(target, torch.Tensor):  # the recorder holds them too
        return False
    return _is_held(session, target)


def _is_held(session: Session, target: Any) -> bool:
    return is_held(session.world, target, session.result, bool(COLLECTIONS.of(session)))


#: what a class may define that no operator asks for
_SILENT = frozenset(
    {
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__slots__",
        "__annotations__",
        "__init__",
        "__new__",
        "__init_subclass__",
        "__class_getitem__",
        "__orig_bases__",
        "__parameters__",
        "__static_attributes__",
        "__firstlineno__",
    }
)


#: C types of objects that hold what they are made of and nothing else
_WATCHED = frozenset({*lookup.safe_self_types(), functools.partial})


@substitute(weakref.proxy)
def _proxy(session: Session, callable_: Any, target: Any, callback: Any = None, /) -> Any:
    """A proxy of an object made inside.  Each look at an attribute asks whether the object lives; operators would not,
    so there must be none.  The end of an object of a C type is watched instead.
    """
    made = callable_(target, callback)  # raises where an object knows no weak references
    cls = type(target)
    if callback is not None:
        raise Interrupt("unsupported-code", "weakref.proxy() with a callback")
    seen_outside = session.record_of(target) is not None or _core.is_external(target)
    in_c = known_kind(cls) in _WATCHED and not seen_outside
    if seen_outside or not in_c and (type(made) is not weakref.ProxyType or not is_handle_class(cls)):
        raise Interrupt("unsupported-code", f"weakref.proxy() of this {qualname_of(cls)}")
    if in_c:
        _watch(session, target)
    elif any(
        name[:2] == "__" == name[-2:] and name not in _SILENT for base in mro_of(cls)[:-1] for name in members_of(base)
    ):
        raise Interrupt("unsupported-code", f"weakref.proxy() of a {qualname_of(cls)}, which has special methods,")
    reference = weakref.ref(target)

    def living() -> Any:
        found = reference()
        if found is None:
            raise ReferenceError("weakly-referenced object no longer exists")
        if not in_c and not _holds(session, found):
            raise Interrupt("unsupported-code", "a weak proxy of an object that may be dead by now")
        return found

    _core.mark_external(made)
    session.keep_alive(made)
    session.world.proxied[id(made)] = living
    return made


@substitute(vars(weakref.ref)["__call__"])
def _deref(session: Session, reference: Any, /, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        return reference(*args, **kwargs)  # raises
    world = session.world
    record = world.by_seen.get(id(reference))
    if record is not None:
        return _living(session, let_in(world, target_of(record.original), record.origin.to("target")))
    target = target_of(reference)
    if target is None or id(target) in world.by_seen:
        return _living(session, target)
    if is_constant(target) and not _core.is_internal(target):
        return target
    if original_of(caller().f_code) in _CALLBACKS:
        return target  # what is taken out of a container that is gone is seen by nobody
    if not _holds(session, target):
        raise Interrupt("unsupported-code", "a weak reference to an object that may be dead by now")
    return target


@substitute(weakref.ref, weakref.ref.__new__)
def _make(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    made = _core.natively(callable_, args, kwargs)
    if is_a(made, weakref.ref) and made.__callback__ is not None:
        _keep_alive(session, made)
    return made


#: their callbacks take an entry out of a weak container, which never leaves a rehearsal
_CONTAINERS = (vars(weakref), vars(_weakrefset))
#: the callbacks themselves
_CALLBACKS = frozenset(
    part
    for cls in (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
    for part in cls.__init__.__code__.co_consts
    if is_a(part, types.CodeType) and "selfref" in part.co_varnames
)


def _keep_alive(session: Session, reference: Any) -> None:
    """A callback must not run at a moment of our own: the referent is held, and must be held by the program too until
    the end.

    The entries of weak containers may go with the frames of the program, when all is over; not before.
    """
    target = target_of(reference)
    is_containers = any(getattr(reference.__callback__, "__globals__", None) is space for space in _CONTAINERS)
    if not is_containers:
        session.may_break = False  # behind a break nobody would hold the reference, and its callback would be lost
    if is_containers and _is_walked(session, reference.__callback__):
        raise Interrupt("unsupported-code", "a new member of a weak container that is iterated outside")
    if is_constant(target) and not _core.is_internal(target):
        return
    if session.record_of(target) is not None:
        session.at_end(lambda: _check_living(session, reference))
        return
    if is_containers and not is_a(target, torch.Tensor):  # the recorder holds those
        _watch(session, target)
    else:
        _held(session).append(target)


def _is_walked(session: Session, callback: types.FunctionType) -> bool:
    """Return whether an external container is being iterated there: it would note the end of what a rehearsal
    leaves.
    """
    container = next((target_of(one) for one in callback.__defaults__ or () if is_a(one, weakref.ref)), None)
    return session.record_of(container) is not None and bool((_core.own_dict(container) or {}).get("_iterating"))


class _Referred:
    """Objects that weak references made inside lead to."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.watched: list[weakref.ref[Any]] = []
        self.dead: list[str] = []  # where one died: names of functions


_REFERRED = FeatureState(_Referred)
#: the collections that captured code has asked for
COLLECTIONS: FeatureState[list[bool]] = FeatureState(list)


def _held(session: Session) -> list[Any]:
    """Objects that must not die inside, and are held until the end of the rehearsal."""
    referred = _REFERRED.found(session)
    if referred is None:
        referred = _REFERRED.of(session)
        session.at_end(lambda: _check_alive(session, referred))
    return referred.held


def _watch(session: Session, target: Any) -> None:
    """The object may die, when the program lets go of it."""
    _held(session)
    referred = _REFERRED.of(session)
    referred.watched.append(_watched(target, referred.dead))


def _check_living(session: Session, reference: Any) -> None:
    target = target_of(reference)
    record = None if target is None else session.record_of(target)
    if record is not None and may_have_died(session.world, record.original):
        raise Interrupt("unsupported-code", "the callback of a weak reference to an object that dies inside")


def _watched(target: Any, dead: list[str]) -> Any:
    """Notes the end of an object while captured code runs, at a moment that may not be the program's.

    At one that is, the container's own callback runs as captured code.
    """

    def note(_reference: Any) -> None:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if original_of(frame.f_code) is not frame.f_code:
                dead.append(frame.f_code.co_name)
                return
            frame = frame.f_back

    return weakref.ref(target, _core.unless_the_programs(note))


def _check_alive(session: Session, referred: _Referred) -> None:
    """The list keeps them alive to the end of the rehearsal: no callback runs before."""
    referred.held.extend(target for one in referred.watched if (target := target_of(one)) is not None)
    if referred.dead or not all([_is_held(session, target) for target in referred.held]):
        raise Interrupt("unsupported-code", "the callback of a weak reference to an object that dies inside")


@substitute(gc.collect)
def _collect(session: Session, callable_: Any, generation: int = 2) -> Any:
    """Collect nothing: garbage may go at any time, and how much there was is not observable."""
    gc.collect(generation)
    COLLECTIONS.of(session).append(True)
    session.write("call", callable_, None, ())
    return opaque_for(0, "unknown-callable", "gc.collect, whose result was used,")


def _functions_of(cls: type) -> list[types.FunctionType]:
    """The Python functions of a class, those behind its properties too."""
    members = vars(cls).values()
    behind = [part for one in members if is_a(one, property) for part in (one.fget, one.fset) if part is not None]
    return [one for one in (*members, *behind) if is_a(one, types.FunctionType)]


@substitute(weakref.finalize, *_functions_of(weakref.finalize))
def _finalize(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Its register is one for the process: torch and others write to it at any time, while capturing too."""
    raise Interrupt("unsupported-code", "weakref.finalize")

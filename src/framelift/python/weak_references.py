"""Weak references: what one leads to is a fact only where the program is seen to hold it.

A rehearsal holds objects longer than the program does (arguments of calls in progress, what the world remembers),
never shorter.  So a dead referent is dead in the program too; a live one must be held by captured code itself, or lie
outside, where nothing dies before the entry runs.  A callback would run at a moment of our own: captured code makes no
reference that has one, and sees none, and so no member of a weak container.
"""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from .. import _core
from .._core import is_a
from ..boundary.becomes.containers import UNREAD
from ..boundary.becomes.leaves import is_constant, is_leaf
from ..boundary.becomes.opaque import opaque_for
from ..boundary.facts.released_objects import lets_go, reached, root_of
from ..boundary.gateway import let_in
from ..boundary.import_rules import let_in_opaque, rule
from ..boundary.world import World
from ..bytecode import original_of
from ..calls.call_tables import substitute
from ..calls.pure.judges import judges
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.hashing import PARTS_OF_KEYS
from ..exits.recipe import Node, Recipe, Walk, exact
from ..recording.session import Session
from ..substitutes.python.identity import BEFORE_HASH, HASHED_PARTS
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import STEPS, Missing, Origin, OriginStep
from ..vocabulary.own_code import first_above
from ..vocabulary.reasons import Interrupt
from ..vocabulary.written_forms import FORMS, WrittenForm

_TARGET = weakref.ref.__call__  # without calling a method of a subclass
_CALLBACK = vars(weakref.ref)["__callback__"].__get__
_MET: FeatureState[list[Any]] = FeatureState(list)  # external ones
_CALLED_BACK: FeatureState[list[Any]] = FeatureState(list)  # the first one that has a callback
_DEAD = "a weak reference to an object that may be dead by now"

# ---- external ones ---------------------------------------------------------------------------------------------------


@rule(weakref.ref, weakref.KeyedRef)
def _reference(world: World, value: Any, origin: Origin) -> Any:
    """It is itself; its target is read when captured code calls it.  One with a callback is a placeholder."""
    if _CALLBACK(value) is not None:
        _note(world, value)
        return let_in_opaque(world, value, origin, detail="weak reference with a callback")
    world.guard(origin, "TYPE", type(value))
    world.register(value, value, origin, mutable=False)
    known = _MET.of(world)
    known.append(value)
    if len(known) > 1:  # C code may compare them: by what they lead to, or by identity where that is dead
        for one in known[:1] if len(known) == 2 else ():
            _pin(world, one)
        _pin(world, value)
    return value


def _note(world: World, reference: Any) -> None:
    """A callback runs when the object dies, by which weak containers forget their members; outside nothing has died."""
    if _CALLBACK(reference) is not None and not _CALLED_BACK.of(world):
        _CALLED_BACK.of(world).append(reference)
        world.ends.finishing.append(lambda: _check_called_back(world))


def _check_called_back(world: World) -> None:
    if lets_go(world, world.ends.rebound()):
        raise Interrupt("unsupported-code", "the callback of a weak reference to an object that may be dead by now")


def _pin(world: World, reference: Any) -> None:
    """Which reference it is, and whether it is dead, becomes a fact: a dead one has no hash, unless it had before."""
    origin = world.origin_of(reference)
    if origin is None:
        return
    if origin.step != "const":
        world.guard(origin, "IS", reference)
    target = _TARGET(reference)
    if target is None:
        world.guard(origin.to("target"), "IS", None)
    else:  # it leads to this object until it is dead
        world.guard(origin.to("target"), "TYPE", type(target))


def _written(reference: weakref.ref[Any]) -> WrittenForm:
    """Nothing: its target has guards of its own.

    One without a callback is the only such one of its object: two that are different lead to different objects.
    """
    return WrittenForm("reference", [])


@judges(weakref.ref)
def _made(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    # A callback runs when the object dies: the substitute sees to that, a subclass made from C does not ask it.
    return "pure" if len(args) == 1 or (len(args) == 2 and args[1] is None) else "effect"


@judges(weakref.ref.__new__)
def _made_by_new(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return _made(args[1:], kwargs)


def _fetched(base: Any, _key: Any) -> Any:
    if not is_a(base, weakref.ref):
        raise Missing("target")
    return _TARGET(base)


STEPS["target"] = OriginStep(_fetched, lambda base, _key: f"{base}()")  # None where it is dead
UNREAD[weakref.ref] = _note
BEFORE_HASH[weakref.ref] = _pin
FORMS[weakref.ref] = _written
declare(Kind(weakref.ref, make="judged", words={"state": "__call__", "pure": "__init__"}))
HASHED_PARTS[weakref.ref] = PARTS_OF_KEYS[weakref.ref] = lambda reference: (_TARGET(reference),)

# ---- calls -----------------------------------------------------------------------------------------------------------


def _is_in_a_frame(target: Any) -> bool:
    """Return whether a running frame of captured code holds the target."""
    holder = first_above(lambda one: original_of(one.f_code) is not one.f_code and _core.frame_holds(one, target))
    return holder is not None


def _living(world: World, target: Any) -> Any:
    """An external object that a reference leads to, where captured code let go of nothing that held it."""
    if target is None or is_constant(target) or is_leaf(target) or _is_in_a_frame(target):
        return target
    root, record = root_of(world, target), world.by_seen.get(id(target))
    gone = reached(world)
    held = root is None or _is_in_a_frame(root)
    if not held or gone is None or id(target if record is None else record.original) in gone:
        raise Interrupt("unsupported-code", _DEAD)
    return target


@substitute(vars(weakref.ref)["__call__"])
def _deref(session: Session, reference: Any, /, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        return reference(*args, **kwargs)  # raises
    world = session.world
    record = session.record_of(reference)
    if record is not None:
        return _living(world, let_in(world, _TARGET(record.original), record.origin.to("target")))
    target = _TARGET(reference)
    if target is None or session.record_of(target) is not None:
        return _living(world, target)
    if not _is_in_a_frame(target) and (not is_constant(target) or _core.is_internal(target)):
        raise Interrupt("unsupported-code", _DEAD)
    return target


@substitute(weakref.ref, weakref.ref.__new__)
def _make(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    made = _core.natively(callable_, args, kwargs)
    if is_a(made, weakref.ref):
        if _CALLBACK(made) is not None:
            raise Interrupt("unsupported-code", "a weak reference with a callback")
        if session.record_of(target := _TARGET(made)) is None and (
            not is_constant(target) or _core.is_internal(target)
        ):
            session.may_break = False  # behind a break, variables that nobody reads any more would not hold it
    return made


def _functions_of(cls: type) -> list[types.FunctionType]:
    """The Python functions of a class, those behind its properties too."""
    members = vars(cls).values()
    behind = [part for one in members if is_a(one, property) for part in (one.fget, one.fset) if part is not None]
    return [one for one in (*members, *behind) if is_a(one, types.FunctionType)]


@substitute(weakref.finalize, *_functions_of(weakref.finalize))
def _finalize(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Its register is one for the process: torch and others write to it at any time, while capturing too."""
    raise Interrupt("unsupported-code", "weakref.finalize")


@substitute(gc.collect)
def _collect(session: Session, callable_: Any, generation: int = 2) -> Any:
    """Collect nothing: garbage may go at any time, and how much there was is not observable."""
    session.write("call", callable_, None, ())
    return opaque_for(0, "unknown-callable", "gc.collect, whose result was used,")


# ---- at an exit ------------------------------------------------------------------------------------------------------


@exact(weakref.ref)
def _built(walk: Walk, node: Node) -> Recipe:
    """The referent lives as long as the entry's frame, just as it lived in the frame that is replaced."""
    referent = _TARGET(node.obj)
    if referent is None:
        raise Interrupt("result-object", "weakref to a dead object")
    part = walk.part(referent)
    if type(part) is Node:
        part.uses += 1  # never inline: something has to hold it
    return Recipe((walk.constant(weakref.ref, "ref"), "(", part, ")"))

"""`is`, id() and hash(): addresses of external objects are those of the real ones, and guarded; of those made inside,
none may leave.

An object made inside is rebuilt at the exit somewhere else.  So a number that came from its address is noted, and
a result that shows such a number cannot be rebuilt (exits/leaves.py asks the scene).
"""

from __future__ import annotations

import datetime
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import holds_nan, is_constant, is_leaf
from ...boundary.becomes.opaque import Opaque, unhashed
from ...boundary.facts.identities import IDENTITIES, Identities
from ...boundary.world import World
from ...calls.call_tables import substitute
from ...graph.symbols.numbers import NUMBERS, Bool, Float, Int, concrete
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...recording.session import Session
from ...vocabulary.class_reads import mro_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt
from .copying import copies_to_itself, is_copying, is_its_own_copy

#: functions that answered what no other process would
OWN_ANSWERS: FeatureState[list[str]] = FeatureState(list)


def same_object(session: Session, left: Any, right: Any) -> bool:
    """`left is right`, as a fact of the capture where it may differ for equal values."""
    if type(left) is Bool or type(right) is Bool:  # there are two truth values
        left, right = (one.value() if type(one) is Bool else one for one in (left, right))
        return left is right
    if type(left) in NUMBERS or type(right) in NUMBERS:
        return _same_number(left, right)
    if is_a(left, torch.Tensor):
        if left is not right and _may_be_another(session, left) and _may_be_another(session, right):
            raise Interrupt(
                "torch-operation",
                "whether two tensors are one (script objects, max and min may give a tensor of several)",
            )
        return left is right
    if is_its_own_copy(session, left, right):
        return left is right
    if (type(left) is NumpyNumber) is not (type(right) is NumpyNumber) and left == right:
        raise Interrupt("symbolic-number", "whether two scalars are one object")
    return _identities(session).same(left, right)


def _may_be_another(session: Session, obj: Any) -> bool:
    """Return whether a tensor may be one that another name leads to (`Storage.shared`)."""
    return session.is_stand_in(obj) and session.value_of(obj).storage.shared


def _identities(session: Session) -> Identities:
    return IDENTITIES.of(session, session.world)


def _same_number(left: Any, right: Any) -> bool:
    """Symbolic numbers: small ints exist once, of others only the program itself can say."""
    if left is right:
        return True
    kinds = {type(concrete(left)), type(concrete(right))}
    if type(None) in kinds:
        raise Interrupt("tensor-item", "whether two numbers are one object")
    if len(kinds) > 1 or left != right:
        return False
    if kinds == {int} and -5 <= int(left) <= 256:
        return int(left) == int(right)
    raise Interrupt("symbolic-number", "whether two numbers are one object")


@substitute(operator.is_, operator.is_not)
def _is(session: Session, callable_: Any, left: Any, right: Any, /) -> Any:
    same = _core.PROBES["same_object"](left, right)
    return same if callable_ is operator.is_ else not same


def _original(session: Session, obj: Any) -> Any:
    """The real object behind what captured code sees, its identity guarded; None for what was made inside."""
    world = session.world
    record = world.by_seen.get(id(obj))
    if record is None and _may_be_another(session, obj):
        raise Interrupt("torch-operation", "the address of a tensor that may be another one too")
    if record is not None:
        if record.origin.step != "const":
            world.guard(record.origin, "IS", record.original)
        return record.original
    if is_constant(obj) and not _core.is_internal(obj):
        return obj  # its identity was guarded where it was met
    return obj if is_leaf(obj) and _identities(session).pin(obj) else None


_BY_ADDRESS = (object.__hash__, torch.Tensor.__hash__)


#: types whose hash C code makes of the hashes of other objects: how those are found
HASHED_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    frozenset: lambda value: tuple(frozenset.copy(value)),
    types.MethodType: lambda value: (value.__self__, value.__func__),
    types.BuiltinMethodType: lambda value: () if is_a(value.__self__, types.ModuleType | None) else (value.__self__,),
    types.MethodWrapperType: lambda value: (value.__self__,),
}
#: by type, what is looked at before C code asks an object for its hash
BEFORE_HASH: dict[type, Callable[[World, Any], None]] = {}
#: bound objects are hashed by the address of what they are bound to, whatever its class says
_BOUND = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)


def hashed_parts(obj: Any) -> tuple[Any, ...]:
    """The objects that the hash of `obj` is made of by C code."""
    for base in mro_of(type(obj)):
        if base in HASHED_PARTS:
            return HASHED_PARTS[base](obj) if type(obj).__hash__ is base.__hash__ else ()
    return ()


def _check_elements(session: Session, obj: Any) -> bool:
    """C code asks for the hashes of a tuple's or bound method's parts.  True: some are addresses inside."""
    inside = False
    for base in mro_of(type(obj)):
        if base in BEFORE_HASH:
            BEFORE_HASH[base](session.world, obj)
    for element in hashed_parts(obj):
        if is_leaf(element) or is_constant(element):
            inside |= _nan_inside(session, element)
            continue
        if type(element) is Opaque or is_a(element, torch.Tensor):
            raise unhashed(element)
        if type(obj) in _BOUND or type(element).__hash__ is object.__hash__:
            original = _original(session, element)
            if original is not None and original is not element:  # a copy inside lies elsewhere
                raise Interrupt("unknown-callable", "hash of an object by its address")
            inside |= original is None
        else:
            inside |= _check_elements(session, element)
    return inside


def _nan_inside(session: Session, value: Any) -> bool:
    """The hash of a nan is its address.  True: of one that was made inside."""
    if type(value) is tuple:
        return any([_nan_inside(session, item) for item in value])
    return holds_nan(value) and _original(session, value) is None


def _inside(session: Session, number: int) -> int:
    session.addresses.add(number)
    return number


@substitute(id)
def _id(session: Session, obj: Any, /) -> Any:
    if is_copying(session):
        if is_leaf(obj) and not copies_to_itself(session, obj):
            _identities(session).pin(obj)
        record = session.record_of(obj)
        return _inside(session, id(obj if record is None else record.original))
    OWN_ANSWERS.of(session).append("id")
    real = _original(session, obj)
    if real is not None:
        return id(real)
    return _inside(session, id(obj))


def _is_hashed_alike(value: Any) -> bool:
    """Return whether each process has the same hash for it."""
    if type(value) is tuple:
        return all(map(_is_hashed_alike, value))
    return type(value) in (int, float, complex, bool) and not holds_nan(value)


@substitute(hash)
def _hash(session: Session, obj: Any, /) -> Any:
    """Hashes of values are values; hashes by address are as addresses."""
    if not _is_hashed_alike(obj):
        OWN_ANSWERS.of(session).append("hash")
    if is_leaf(obj):
        return _inside(session, hash(obj)) if _nan_inside(session, obj) else hash(obj)
    if type(obj) is Opaque:
        raise unhashed(obj)
    if _core.type_lookup(type(obj), "__hash__", None) not in _BY_ADDRESS:
        inside = _check_elements(session, obj)
        number = _core.natively(hash, (obj,), None)
        return _inside(session, number) if inside else number
    real = _original(session, obj)
    if real is not None:
        return object.__hash__(real) if not is_a(real, torch.Tensor) else hash(real)
    return _inside(session, object.__hash__(obj) if not is_a(obj, torch.Tensor) else id(obj))


@substitute(object.__hash__)
def _object_hash(session: Session, obj: Any, /) -> Any:
    OWN_ANSWERS.of(session).append("hash")
    real = _original(session, obj)
    return object.__hash__(real) if real is not None else _inside(session, object.__hash__(obj))


#: types of values whose hashes each process makes with a seed or an address of its own
_SEEDED = (str, bytes, range, types.CodeType, datetime.date, datetime.datetime, datetime.time, datetime.timedelta)


@substitute(*[vars(kind)["__hash__"] for kind in _SEEDED])
def _seeded_hash(session: Session, callable_: Any, value: Any, /) -> Any:
    """A value's own `__hash__`, by whatever way it was found."""
    OWN_ANSWERS.of(session).append("hash")
    return _core.natively(callable_, (value,), None)


_core.connect(symbolic_int=Int, symbolic_float=Float, symbolic_bool=Bool)

"""functools.lru_cache and partial: one made inside works by itself; of an external one, an answer that it holds is read
(cache_tables.py), else it is called through.
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import re
import types
import typing
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...boundary.becomes.leaves import is_constant, is_leaf
from ...boundary.gateway import let_in
from ...boundary.world import type_lookup
from ...calls.call_tables import substitute
from ...graph.fx.values import Storage
from ...graph.symbols.numbers import NUMBERS, Float, Int
from ...higher_order.bodies import Surroundings
from ...vocabulary.origins import const
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_torch_function
from .cache_numbers import keep_by_numbers
from .cache_tables import calling_first, may_be_outdated, question, take_out_answers
from .cached_objects import picture_of

if TYPE_CHECKING:
    from ...recording.session import Session

_WRAPPER = functools._lru_cache_wrapper


#: what looking a value up, and making an alias of it, asks its class for
_ASKED = ("__hash__", "__eq__", "__getattribute__", "__getattr__")
_GLOBALS: Any = vars(types.FunctionType)["__globals__"]


def is_own_cache(wrapper: Any) -> bool:
    """Return whether a cache was made inside, around a Python function: what it calls is watched, what it keeps is
    private.
    """
    return _core.is_internal(wrapper) and is_a(wrapper.__wrapped__, (types.FunctionType, types.MethodType))


def call_through(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An external cache.  Where it holds no answer, what it wraps is captured: that may change nothing."""
    _check_hashable((*args, *kwargs.values()))
    if _core.is_external(callable_):
        args = tuple(map(_zeros_as_they_are, args))
        kwargs = {name: _zeros_as_they_are(value) for name, value in kwargs.items()}
    return _call_through(session, callable_, args, kwargs)


def _call_through(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    answers: dict[Any, list[tuple[list[Any], Any]]] = session.features.setdefault(call_through, {})
    numbers: list[Any] = []
    given = answers.setdefault(_key(callable_, args, kwargs, numbers), [])
    for others, result in given:
        if all(a == b for a, b in zip(others, numbers)):  # symbolic ones note what was found
            return result
    function = _core.read(callable_, "__wrapped__") if _core.is_external(callable_) else callable_.__wrapped__
    if _is_of(typing, function) and all(map(_is_asked_natively, (*args, *kwargs.values()))):
        try:
            real = _core.natively(callable_, args, kwargs)
        except Exception as error:
            raise_outside(error)  # else nothing is kept for these: what the typing module looks at is captured
        else:
            result = let_in(session.world, real, const(real))  # `G[int]` is one object for all who write it
            given.append((numbers, result))
            session.world.keep += (args, kwargs, result)
            return result
    # they read nothing that changes
    is_known = is_torch_function(function) or any(_is_of(module, function) for module in (typing, re, inspect))
    asked = None if is_known else question(session, callable_, args, kwargs)
    if asked is not None and asked.has_answer():
        real = asked.answer(args, kwargs)
        result = let_in(session.world, real, const(real))
        given.append((numbers, result))
        session.world.keep += (args, kwargs, real)
        return result
    recorder = session.recorder
    for value in (*args, *kwargs.values()):
        if recorder.is_stand_in(value) and recorder.value_of(value).storage.external:
            raise _denied(function, "it may hold a result for this very tensor, from before the tensor was written")
    around, steps, written = Surroundings(session, function, *args), len(recorder.tape), len(recorder.written)
    before = len(session.world.effects)
    with calling_first(asked):
        result = _core.captured(function, args, kwargs)
        kept_inside = take_out_answers(session, before)
        changed = (
            around.changed()
            or len(recorder.written) > written
            and "a tensor"
            or any(step.effect for step in recorder.tape[steps:])
            and "random numbers or tensors"
        )
        if changed:
            raise _denied(function, f"it changes {changed} the first time it is called")
    if asked is None and not is_known:
        is_value = _is_value(result)
        outdated = not is_value or may_be_outdated(session, (*args, *kwargs.values()))
        if outdated and keep_by_numbers(session, callable_, args, kwargs, result, is_value):
            given.append((numbers, result))
            session.world.keep += (args, kwargs, result)
            return result  # the cache asks those that it asked, too
    picture = picture_of(session, result) if asked is not None and not _is_value(result) else None
    if asked is not None and picture is not None:
        asked.keep_object(session, picture, result, args, kwargs)
        given.append((numbers, result))
        session.world.keep += (args, kwargs, result)
        return result
    if _is_of(typing, function) and any(map(_is_made_inside, args)):
        pass  # an alias of a class or type variable made inside, which nobody else has
    elif not _is_value(result) and not is_torch_function(function) and not _is_of(re, function):
        # programs do not write to what torch keeps, and do not see what re does
        raise _denied(function, "its result is one object for all calls, which others may hold and change")
    given.append((numbers, result))
    session.world.keep += (args, kwargs, result)
    if asked is not None:
        asked.keep(session, result, args, kwargs)  # which asks those that it asked, too
    else:
        session.world.effects += kept_inside
    if asked is None and not is_known and may_be_outdated(session, (*args, *kwargs.values())):
        raise _denied(function, "it may hold a result for these arguments, from before what it reads was changed")
    if not is_torch_function(function):
        _keep_inside(session, function, result)
    if type(result) in _CONTENTS:
        session.world.finishing.append(
            functools.partial(_check_unchanged, function, result, _CONTENTS[type(result)](result))
        )
    return result


def _is_of(module: types.ModuleType, function: Any) -> bool:
    return is_a(function, types.FunctionType) and _globals_of(function) is vars(module)


def _is_asked_natively(value: Any) -> bool:
    """Return whether a cache of the typing module may be asked: the value is external, and its lookup runs no user
    code.
    """
    if type(value) is tuple:
        return all(map(_is_asked_natively, value))
    for name in _ASKED:
        found = type_lookup(type(value), name)
        if is_a(found, types.FunctionType) and _globals_of(found) is not vars(typing):
            return False
    return is_leaf(value) or _core.is_external(value) or is_constant(value) and not _core.is_internal(value)


def _is_made_inside(value: Any) -> bool:
    """Return whether a key has a part that no key of others can equal: it was made inside, and equals itself alone."""
    if type(value) is tuple:
        return any(map(_is_made_inside, value))
    if is_leaf(value) or _core.is_external(value) or is_constant(value):
        return _core.is_internal(value)
    equal = type_lookup(type(value), "__eq__")
    if is_a(equal, types.FunctionType) and _globals_of(equal) is vars(typing):  # an alias equals by its parts
        return any(map(_is_made_inside, (_core.own_dict(value) or {}).values()))
    return equal is object.__eq__


def _globals_of(function: types.FunctionType) -> Any:
    return _GLOBALS.__get__(function)


def _is_value(result: Any) -> bool:
    """Return whether a result's identity does not matter: values, functions, external classes, patterns and tensors."""
    if type(result) in (tuple, torch.Size):
        return all(map(_is_value, result))
    if is_leaf(result) or type(result) in NUMBERS or is_a(result, (torch.Tensor, re.Pattern)):
        return True
    if is_a(result, (types.GenericAlias, types.UnionType)):  # equal ones are different objects
        return False
    return is_constant(result) and not _core.is_internal(result) or _core.is_external(result) or is_a(result, enum.Enum)


#: memory of tensors that external caches keep, with the function that made them
_KEPT = "tensors that caches keep"


def _keep_inside(session: Session, function: Any, result: Any) -> None:
    """A tensor that a cache keeps is one object for all calls: the graph makes another one, which nobody may see."""
    if type(result) is tuple:
        for one in result:
            _keep_inside(session, function, one)
    elif session.recorder.is_stand_in(result) and not session.recorder.value_of(result).storage.external:
        storage, written = session.recorder.value_of(result).storage, len(session.recorder.written)
        session.features.setdefault(_KEPT, {})[id(storage)] = function
        session.world.finishing.append(functools.partial(_check_unwritten, session, function, storage, written))


def _check_unwritten(session: Session, function: Any, storage: Storage, before: int) -> None:
    if any(value.storage is storage for value in session.recorder.written[before:]):
        raise _denied(function, "its result is written to, and would stay so")


def check_leaves(session: Session, tensor: Any) -> None:
    """A tensor that was made inside is seen by others from now on."""
    kept = session.features.get(_KEPT)
    function = kept.get(id(session.recorder.value_of(tensor).storage)) if kept else None
    if function is not None:
        raise _denied(function, "its result is one tensor for all calls, which others may hold and change")


def _check_hashable(values: tuple[Any, ...]) -> None:
    """A cache asks for the hash of its arguments before it calls anything."""
    for value in values:
        if type(value) is tuple:
            _check_hashable(value)
        elif type(value).__hash__ is None:
            hash(value)  # raises


def _zeros_as_they_are(value: Any) -> Any:
    """A symbolic float that is zero as a constant: both zeros are one key, with the answer of the first."""
    if type(value) is tuple:
        return tuple(map(_zeros_as_they_are, value))
    return float(value) if type(value) is Float and value.hint is not None and value == 0.0 else value


def _key(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: list[Any]) -> Any:
    """Return a call's key, objects by their identity: calls of equal keys and numbers return one object."""
    parameters = getattr(callable_, "cache_parameters", None)
    typed = parameters is None or bool(parameters()["typed"])
    alone = len(args) == 1 and not kwargs  # an int alone is a key of its own kind
    seen = [_key_part(value, numbers, typed or alone) for value in args]
    named = {name: _key_part(value, numbers, typed) for name, value in kwargs.items()}
    return id(callable_), functools._make_key(tuple(seen), named, typed)


def _key_part(value: Any, numbers: list[Any], typed: bool) -> Any:
    """The value, with numbers taken out: those may be symbolic."""
    # those of different types may be equal
    if _is_plain(value) and (type(value) in NUMBERS or is_a(value, (int, float, complex))):
        numbers.append(value)
        return _key_part, value.__class__ if typed else None
    if type(value) in (tuple, torch.Size):
        return tuple([_key_part(one, numbers, False) for one in value])  # types are looked at outermost only
    return value if _is_plain(value) else (_key, id(value))


def _is_plain(value: Any) -> bool:
    """Return whether a value is asked for by what it is."""
    return (
        type(value) in (Int, Float)
        or is_leaf(value)
        or type(value) in (tuple, torch.Size)
        and all(map(_is_plain, value))
    )


#: containers whose change would stay in the cache: type -> what they hold
_CONTENTS: dict[type, Any] = {
    list: tuple,
    collections.deque: tuple,
    set: tuple,
    dict: lambda value: tuple(value.items()),
}


def _check_unchanged(function: Any, result: Any, before: tuple[Any, ...]) -> None:
    now = _CONTENTS[type(result)](result)
    pairs = zip(now, before, strict=False)
    same = (
        all(a[0] is b[0] and a[1] is b[1] for a, b in pairs) if type(result) is dict else all(a is b for a, b in pairs)
    )
    if len(now) != len(before) or not same:
        raise _denied(function, "its result is changed, and would stay so")


def _denied(function: Any, why: str) -> Interrupt:
    return Interrupt(
        "unknown-callable", f"{getattr(function, '__qualname__', 'a function')} under functools.lru_cache ({why})"
    )


@substitute(_WRAPPER)
def _make(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = _core.natively(callable_, args, kwargs)
    _core.mark_internal(made)
    made.__wrapped__ = args[0]  # functools sets it a moment later
    return made


@substitute(_WRAPPER.cache_info, _WRAPPER.cache_clear)
def _look(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not args or not _core.is_internal(args[0]):
        raise Interrupt("unknown-callable", f"lru_cache.{callable_.__name__} of an external cache")
    return _core.natively(callable_, args, kwargs)


@substitute(functools.partial.__call__)
def _partial_call(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`super().__call__(...)` of a subclass of partial."""
    made, *more = args
    return _core.captured(made.func, (*made.args, *more), {**made.keywords, **kwargs})

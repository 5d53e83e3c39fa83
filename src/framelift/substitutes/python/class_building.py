"""Questions to classes, and descriptors that are made inside the rehearsal."""

from __future__ import annotations

import types
from typing import Any

from ... import _core
from ..._core import is_a
from ...boundary.attributes.classes import delete_class
from ...boundary.attributes.instances import bound_to_class
from ...calls.call_tables import substitute
from ...recording.session import Session
from ...vocabulary.class_reads import name_of, qualname_of
from ...vocabulary.reasons import Interrupt
from .code_objects import makes_class


@substitute(type.__call__)
def _type_call(session: Session, callable_: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`super().__call__(...)` of a metaclass: the class is made an instance of as `type` does it."""
    if not is_a(cls, type):
        return callable_(cls, *args, **kwargs)  # raises
    if issubclass(cls, type):
        raise makes_class(cls)
    if not _core.is_plain_class(cls):  # an instance could be looked for in no table
        raise Interrupt("unknown-callable", qualname_of(cls))
    found = session.lookup(cls, "__new__")  # read off the class, it could be the metaclass's own
    made = _core.captured(found.__func__ if type(found) is staticmethod else found, (cls, *args), kwargs)
    if is_a(made, cls):
        start = session.lookup(type(made), "__init__")
        if type(start) is property:  # what it gives would be called
            raise Interrupt("unknown-callable", qualname_of(cls))
        result = _core.captured(start, (made, *args), kwargs)
        if result is not None:
            raise TypeError(f"__init__() should return None, not {name_of(type(result))!r}")
    return made


@substitute(issubclass, type.mro)
def _asked_for_bases(session: Session, callable_: Any, cls: Any, /, *others: Any) -> Any:
    """`type.mro` is a new list of what the class and its bases say; nothing is changed."""
    if is_a(cls, type):
        world = session.world
        world.classes.note_order(cls)
    return _core.natively(callable_, (cls, *others), None)


@substitute(type.__delattr__)
def _type_delattr(session: Session, cls: Any, name: Any, /) -> Any:
    if not is_a(cls, type):
        return type.__delattr__(cls, name)  # raises
    return delete_class(cls, name)


@substitute(property, staticmethod, classmethod)
def _descriptor(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """They copy the text and names of the function they are given, so those of an external one are facts."""
    for part in (*args, *kwargs.values()):
        if _core.is_external(part):
            raise Interrupt("callable-on-handle", callable_.__name__)
        if type(part) is types.FunctionType and not _core.is_internal(part):
            if any(session.is_pending(part, name) for name in ("__name__", "__module__")):
                raise Interrupt("effect-object", f"{part.__qualname__}.__name__")
            _core.read(part, "__doc__")
    made = _core.natively(callable_, args, kwargs)
    _core.mark_internal(made)
    return made


@substitute(property.getter, property.setter, property.deleter)
def _changed_property(session: Session, callable_: Any, descriptor: Any, function: Any, /) -> Any:
    if any(_core.is_external(part) for part in (descriptor, function)):
        raise Interrupt("callable-on-handle", callable_.__name__)
    made = _core.natively(callable_, (descriptor, function), None)
    _core.mark_internal(made)
    return made


@substitute(vars(classmethod)["__get__"])
def _bound_to_class(session: Session, callable_: Any, method: Any, instance: Any, owner: Any = None, /) -> Any:
    """`method.__get__(instance, cls)` of a classmethod object."""
    if not is_a(method, classmethod):
        return callable_(method, instance, owner)  # raises
    if _core.is_external(method) or instance is owner is None:
        raise Interrupt("callable-on-handle", "classmethod.__get__")
    return bound_to_class(session.world, method, type(instance) if owner is None else owner)[0]


@substitute(vars(types.GenericAlias)["__call__"])
def _call_alias(session: Session, alias: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`list[int](...)`: what the class itself makes, which gets the alias where it can hold it."""
    made = _core.captured(alias.__origin__, args, kwargs)
    try:
        _core.captured(setattr, (made, "__orig_class__", alias), None)
    except (AttributeError, TypeError):
        pass
    return made

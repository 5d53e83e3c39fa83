"""Class statements in captured code: a class made inside is internal from the moment it exists.

`__init_subclass__` and `__set_name__` run while `type.__new__` is still at work, so its result comes too late: a
mark in the namespace, whose `__set_name__` runs before any other, registers the new class with the probes.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.opaque import Opaque, refused
from ...calls.call_tables import substitute
from ...calls.frame_views import caller, module_globals
from ...calls.pure.lookup import is_c_callable, member
from ...vocabulary.class_reads import name_of, qualname_of
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session

_MARK = ".internal"
_DESCRIPTORS = ("__set_name__", "__get__", "__set__", "__delete__")


class _InternalMark:
    """Makes the class it finds itself in internal, and disappears from it."""

    __set_name__ = _core.adopt


def marked(namespace: Any) -> Any:
    """A copy of a class's namespace with the mark in front; anything but a dictionary is left to fail by itself."""
    if not is_a(namespace, dict):
        return namespace
    for value in dict.values(namespace):
        # C code tells a descriptor its name, and asks it when the class is read: a placeholder would not answer
        if type(value) is Opaque and any(_core.type_lookup(value.__class__, name, None) for name in _DESCRIPTORS):
            raise refused(value)
    if any(_core.is_python_class(type(key)) for key in dict.keys(namespace)):
        raise Interrupt("unsupported-code", "a class whose namespace has a key that compares itself by code")
    return {_MARK: _InternalMark(), **namespace}


def _with_module(session: Session, namespace: Any) -> Any:
    """The namespace of a class with the name of its module, which CPython would take from a frame of ours."""
    if not is_a(namespace, dict) or "__module__" in namespace:
        return namespace
    try:
        return {**namespace, "__module__": module_globals(session, caller())["__name__"]}
    except KeyError:
        raise Interrupt("unsupported-code", "a class made in a namespace without a name") from None


def made_class(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`type(name, bases, namespace)`."""
    meta = _metaclass(args[1], {"metaclass": callable_}) if len(args) == 3 else None
    if meta is not None and all(member(meta, name) is member(type, name) for name in ("__new__", "__init__")):
        args = (*args[:2], marked(_with_module(session, args[2])))
    elif meta is not None and _is_new_of_type(meta) and not is_c_callable(member(meta, "__init__")):
        # only its `__init__` sees the namespace
        cls = _type_new(session, type.__new__, callable_, *args, **kwargs)
        return _started(session, cls, callable_, args, kwargs)
    cls = _core.natively(callable_, args, kwargs)
    if is_a(cls, type):
        _core.mark_internal(cls)
    return cls


def _started(session: Session, cls: Any, meta: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if is_a(cls, meta):
        result = _core.captured(session.lookup(type(cls), "__init__"), (cls, *args), kwargs)
        if result is not None:
            raise TypeError(f"__init__() should return None, not {name_of(type(result))!r}")
    return cls


def _is_new_of_type(meta: type) -> bool:
    return member(meta, "__new__") is member(type, "__new__")


@substitute(type.__new__)
def _type_new(session: Session, callable_: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A metaclass makes its class."""
    meta = _metaclass(args[1], {"metaclass": cls}) if len(args) == 3 else None
    if meta is not None and (meta is cls or _is_new_of_type(meta)):
        args = (*args[:2], marked(_with_module(session, args[2])))
    made = _core.natively(callable_, (cls, *args), kwargs)
    _core.mark_internal(made)
    return made


class NamespaceOnly:
    """Stands in a class statement's place for the metaclass: gives the namespace, makes nothing."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def __prepare__(self, _name: str, _bases: tuple[Any, ...]) -> Any:
        return self._namespace

    def __call__(self, _name: str, _bases: tuple[Any, ...], _namespace: Any) -> None:
        return None


@substitute(builtins.__build_class__)
def _build_class(session: Session, callable_: Any, body: Any, name: Any, /, *stated: Any, **kwargs: Any) -> Any:
    """A class statement in its steps: metaclass, namespace, body, class."""
    bases = _resolved(stated)
    meta = _metaclass(bases, kwargs)
    if meta is None and bases is not stated:
        raise Interrupt("unsupported-code", f"the class statement of {name}")
    if meta is None:
        cls = _core.natively(callable_, (body, name, *stated), kwargs)
        if is_a(cls, type):
            _core.mark_internal(cls)
        return cls
    more = {key: value for key, value in kwargs.items() if key != "metaclass"}
    namespace = {} if meta is type else _core.captured(_core.read(meta, "__prepare__"), (name, bases), more)
    if not is_a(namespace, (dict, Mapping)):
        raise TypeError(f"{name_of(meta)}.__prepare__() must return a mapping, not {name_of(type(namespace))}")
    _core.natively(callable_, (body, name), {"metaclass": NamespaceOnly(namespace)})
    if bases is not stated:
        _core.natively(operator.setitem, (namespace, "__orig_bases__", stated), None)
    cell = namespace.get("__classcell__") if type(namespace) is dict else None
    if meta is not type and type(meta) is type and _is_new_of_type(meta):
        cls = made_class(session, meta, name, bases, namespace, **more)
    else:
        cls = (_core.captured if meta is type else _core.natively)(meta, (name, bases, namespace), more)
    if is_a(cls, type):
        _core.mark_internal(cls)
        _check_cell(cell, name, cls)
    return cls


def _resolved(stated: tuple[Any, ...]) -> tuple[Any, ...]:
    """The bases of a class statement, where those that are no classes say what stands for them."""
    found: list[Any] = []
    asked = False
    for base in stated:
        entries = None if is_a(base, type) else _entries_of(base)
        if entries is None:
            found.append(base)
            continue
        named = _core.captured(entries, (stated,), None)
        if not is_a(named, tuple):
            raise TypeError("__mro_entries__ must return a tuple")
        found += named
        asked = True
    return tuple(found) if asked else stated


def _entries_of(base: Any) -> Any:
    try:
        return _core.read(base, "__mro_entries__")
    except AttributeError:
        return None


def _metaclass(bases: tuple[Any, ...], kwargs: dict[str, Any]) -> type | None:
    """The metaclass as CPython chooses it; None where that, or what it does, is left to CPython."""
    meta = kwargs.get("metaclass", type(bases[0]) if bases else type)
    if not is_a(meta, type) or not is_a(bases, tuple) or not all(issubclass(type(base), type) for base in bases):
        return None
    for base in bases:
        kind = type(base)
        if not issubclass(meta, kind):
            if not issubclass(kind, meta):
                return None
            meta = kind
    if not issubclass(meta, type):  # what it makes is no class
        return None
    if member(meta, "mro") is not member(type, "mro"):  # it is called with a class that is none yet
        raise Interrupt("unsupported-code", f"a class of {qualname_of(meta)}, which has an mro() of its own,")
    return meta if meta is type or _core.is_python_class(meta) else None


def _check_cell(cell: Any, name: str, cls: type) -> None:
    if type(cell) is not types.CellType:
        return
    try:
        found = cell.cell_contents
    except ValueError:
        raise RuntimeError(
            f"__class__ not set defining {name!r} as {cls!r}. Was __classcell__ propagated to type.__new__?"
        ) from None
    if found is not cls:
        raise TypeError(f"__class__ set to {found!r} defining {name!r} as {cls!r}")

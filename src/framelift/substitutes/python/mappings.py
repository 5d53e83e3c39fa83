"""dict(mapping), update(mapping), {**mapping} and dir(): what C code asks an object is asked through the probes."""

from __future__ import annotations

import collections
import operator
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.records import ABSENT
from ...boundary.world import World
from ...calls.call_tables import substitute
from ...calls.frame_views import caller, frame_locals
from ...calls.pure import lookup
from ...vocabulary.class_reads import bases_of
from ...vocabulary.plain_types import DICTIONARIES
from ...vocabulary.reasons import Interrupt
from ..numbers.number_attributes import SYMBOLIC
from .lazy_containers import own_method

if TYPE_CHECKING:
    from ...recording.session import Session

_TYPE_DIR = type.__dict__["__dir__"]


def as_dict(mapping: Any) -> Any:
    """Convert a mapping that is a handle as C code would: by `keys()`, and `mapping[key]` for each."""
    if not _core.is_external(mapping):
        return mapping
    try:
        keys = _core.read(mapping, "keys")
    except AttributeError:
        return mapping
    return {
        key: _core.natively(operator.getitem, (mapping, key), None)
        for key in _core.captured(list, (_core.captured(keys, (), None),), None)
    }


def _handler(place: int) -> Any:
    def call(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
        own = own_method(callable_, args)
        if own is not None:
            return own[0](*own[1], **kwargs)
        if len(args) > place:
            args = (*args[:place], as_dict(args[place]), *args[place + 1 :])
        for part in args:
            if issubclass(type(part), type) and _core.is_python_class(part):
                session.note_class(part)  # a factory, whose instances C code makes
        word = lookup.verdict(callable_, args, kwargs)
        if word not in ("pure", "internals"):
            raise Interrupt(
                "unknown-callable", f"{getattr(callable_, '__qualname__', callable_)} ({lookup.reason(word)})"
            )
        if word == "internals" and any(_core.is_external(part) for part in args):
            raise Interrupt("callable-on-handle", getattr(callable_, "__qualname__", str(callable_)))
        return _core.natively(callable_, args, kwargs)

    return call


substitute(*(kind for kind in DICTIONARIES if kind is not collections.defaultdict))(_handler(0))
substitute(*{getattr(kind, name) for kind in DICTIONARIES for name in ("__init__", "update")})(_handler(1))
substitute(collections.defaultdict)(_handler(1))


@substitute(dir)
def _dir(session: Session, obj: Any = ABSENT, /) -> Any:
    """The names of an object: its own, and those of its classes in order."""
    if obj is ABSENT:
        names = frame_locals(session, caller())
        if type(names) is not dict:
            names = _core.captured(_core.read(names, "keys"), (), None)
        return _core.captured(sorted, (names,), None)
    world = session.world
    if type(obj) in SYMBOLIC:
        return dir(obj.__class__())
    own = world.classes.lookup(type(obj), "__dir__")
    if is_a(own, types.FunctionType):
        return sorted(_core.captured(own, (obj,), None))
    if is_a(obj, type):
        if own is not _TYPE_DIR:
            raise Interrupt("unknown-callable", "dir of a class whose metaclass has its own")
        return sorted(_names_of_class(world, obj))
    if is_a(obj, types.ModuleType):
        table = _core.read(obj, "__dict__")
        if not is_a(table, dict):
            return _core.natively(dir, (obj,), None)  # raises
        if "__dir__" in table:
            return sorted(_core.captured(table["__dir__"], (), None))
        return sorted(_core.captured(list, (table,), None))
    if own is not object.__dir__:  # of a C type
        if _core.is_external(obj):
            raise Interrupt("callable-on-handle", "dir")
        return sorted(_core.natively(own, (obj,), None))
    return sorted(_names_of(world, obj))


def _names_of(world: World, obj: Any) -> dict[str, None]:
    own, claimed = _read_or_none(obj, "__dict__"), _read_or_none(obj, "__class__")  # which may be anything
    names = dict.fromkeys(own.copy()) if is_a(own, dict) else {}
    if is_a(claimed, type):
        names.update(_names_of_class(world, claimed))
    return names


@substitute(object.__dir__)
def _object_dir(session: Session, obj: Any, /) -> Any:
    if is_a(obj, (type, types.ModuleType)) or type(obj) in SYMBOLIC:
        raise Interrupt("callable-on-handle", "object.__dir__")
    return list(_names_of(session.world, obj))


@substitute(_TYPE_DIR)
def _type_dir(session: Session, cls: Any, /) -> Any:
    return list(_names_of_class(session.world, cls)) if is_a(cls, type) else _TYPE_DIR(cls)  # which raises


def _read_or_none(obj: Any, name: str) -> Any:
    try:
        return _core.read(obj, name)
    except AttributeError:
        return None


def _names_of_class(world: World, cls: type) -> dict[str, None]:
    """The names in a class and its bases, in the order in which CPython goes through them."""
    world.classes.note_order(cls)
    names = dict.fromkeys(_core.read(cls, "__dict__").copy())
    for base in bases_of(cls):
        names.update(_names_of_class(world, base))
    return names

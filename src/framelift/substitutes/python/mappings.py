"""dict(mapping), update(mapping), {**mapping} and dir(): C code that asks an object for attributes, asked through the
probes instead.
"""

from __future__ import annotations

import collections
import operator
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.world import World
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...vocabulary.class_reads import dictoffset_of
from ...vocabulary.reasons import Interrupt
from ..numbers.number_attributes import SYMBOLIC
from .lazy_containers import own_method

if TYPE_CHECKING:
    from ...rehearsal.session import Session

__all__ = ["as_dict"]


def as_dict(mapping: Any) -> Any:
    """What C code would make of a mapping that is a handle: its `keys()`, and `mapping[key]` for each.  Others as they
    are.
    """
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
    def call(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        own = own_method(callable_, args)
        if own is not None:
            return own[0](*own[1], **kwargs)
        if len(args) > place:
            args = (*args[:place], as_dict(args[place]), *args[place + 1 :])
        for part in args:
            if issubclass(type(part), type) and _core.is_python_class(part):
                session.world.note_class(part)  # a factory, whose instances C code makes
        word = lookup.verdict(callable_, args, kwargs)
        if word not in ("pure", "internals"):
            raise Interrupt(
                "unknown-callable", f"{getattr(callable_, '__qualname__', callable_)} ({lookup.reason(word)})"
            )
        if word == "internals" and any(_core.is_external(part) for part in args):
            raise Interrupt("callable-on-handle", getattr(callable_, "__qualname__", str(callable_)))
        return _core.natively(callable_, args, kwargs)

    return call


substitute(dict, collections.OrderedDict)(_handler(0))
substitute(
    dict.__init__,
    dict.update,
    collections.OrderedDict.__init__,
    collections.OrderedDict.update,
    collections.defaultdict.__init__,
)(_handler(1))
substitute(collections.defaultdict)(_handler(1))


@substitute(dir)
def _dir(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The names of an object: its own, and those of its classes in order."""
    if len(args) != 1 or kwargs:
        raise Interrupt("unknown-callable", "dir")
    (obj,) = args
    world = session.world
    if is_a(obj, type):
        if world.lookup(type(obj), "__dir__") is not type.__dict__["__dir__"]:
            raise Interrupt("unknown-callable", "dir of a class whose metaclass has its own")
        return sorted(_names_of_class(world, obj))
    if type(obj) in SYMBOLIC:
        return dir(obj.__class__())
    own = world.lookup(type(obj), "__dir__")
    if is_a(own, types.FunctionType):
        return sorted(_core.captured(own, (obj,), None))
    if is_a(obj, types.ModuleType):
        table = _core.read(obj, "__dict__")
        return sorted(_core.captured(table["__dir__"], (), None) if "__dir__" in table else table.copy())
    claimed = _core.read(obj, "__class__")  # as CPython does: an object may say another class
    names = dict.fromkeys(_names_of_class(world, claimed)) if is_a(claimed, type) else {}
    if dictoffset_of(type(obj)) or hasattr(obj, "__dict__"):
        names.update(dict.fromkeys(_core.read(obj, "__dict__").copy()))
    return sorted(names)


def _names_of_class(world: World, cls: type) -> dict[str, None]:
    names: dict[str, None] = {}
    world.note_order(cls)
    for base in type.__dict__["__mro__"].__get__(cls):
        names.update(dict.fromkeys(_core.read(base, "__dict__").copy()))
    return names

"""Attributes of stand-ins: torch's own by the recorder, those of the program from the real tensor and from its class.

CPython's own order is kept (a data descriptor of the class, the tensor's own dictionary, the class), and what the
class holds is guarded as for any object: methods may be put on `torch.Tensor` and taken off again.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import id, is_a
from ..boundary.attributes.instances import NATIVE, bound_as, bound_to_class, is_data_descriptor
from ..boundary.gateway import let_in
from ..boundary.records import ABSENT, DELETED
from ..graph.metadata.facts import has_a_say
from ..graph.metadata.wrappers import asks_first, is_wrapper
from ..guards.kinds import PLAIN_TENSORS
from ..recording import tensor_writes
from ..recording.wrapper_results import attribute_of_result, holds
from ..torch_ports.tensors import tensor_module
from ..vocabulary.class_reads import has_member, module_of, name_of, qualname_of
from ..vocabulary.origins import const
from ..vocabulary.reasons import Interrupt
from . import modes

if TYPE_CHECKING:
    from ..recording.session import Session

_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_OF_TORCH = vars(tensor_module)


def load(session: Session, tensor: torch.Tensor, name: str) -> Any:
    """`tensor.name`: a `__getattribute__` of the program's if there is one, then a `__getattr__`."""
    cls = type(tensor)
    getter = session.lookup(cls, "__getattribute__")
    try:
        if is_a(getter, types.FunctionType):
            return _core.captured(getter, (tensor, name), None)
        return generic_load(session, tensor, name)
    except AttributeError:
        fallback = session.lookup(cls, "__getattr__")
        if not is_a(fallback, types.FunctionType):
            raise
    return _core.captured(fallback, (tensor, name), None)


def generic_load(session: Session, tensor: torch.Tensor, name: str) -> Any:
    """Read an attribute of a tensor as `object.__getattribute__` does."""
    world, cls = session.world, type(tensor)
    found = world.classes.lookup(cls, name)
    kind = bound_as(world, type(found))
    if kind in (types.GetSetDescriptorType, property):
        return by_descriptor(session, tensor, name, found)
    if kind is types.MethodDescriptorType and cls in PLAIN_TENSORS and not _may_be_hidden(session, tensor, name):
        record = world.by_seen.get(id(tensor))
        if record is None:
            _core.know_class(cls, name, NATIVE, None)
            return found.__get__(tensor, cls)
        if world.guard_method(record.origin, name):
            _core.know(tensor, name, NATIVE, None)
            return found.__get__(tensor, cls)
    entry = ABSENT if is_data_descriptor(session.world, found) else _own_entry(session, tensor, name)
    if entry is not ABSENT:
        return entry
    if found is ABSENT:
        raise AttributeError(f"{name_of(cls)!r} object has no attribute {name!r}", name=name, obj=tensor)
    return _bound(session, tensor, name, found, kind)


def _may_be_hidden(session: Session, tensor: torch.Tensor, name: str) -> bool:
    """Return whether the tensor itself has an attribute of a method's name."""
    if session.is_pending(tensor, name):
        return True
    record = session.record_of(tensor)
    return record is not None and name in _core.own_dict(record.original)


def by_descriptor(session: Session, tensor: torch.Tensor, name: str, found: Any) -> Any:
    """Read an attribute that torch or the program defines by a descriptor."""
    recorder = session.recorder
    if is_a(found, property) and not _is_of_torch(found):
        if found.fget is None:
            found.__get__(tensor)  # raises, in CPython's own words
        return _core.captured(found.fget, (tensor,), None)
    if name == "__dict__":
        raise Interrupt("opaque-object", "Tensor.__dict__")
    if is_a(found, types.MemberDescriptorType):
        return _slot(session, tensor, name, found)
    cls = type(tensor)
    pending = session.pending(tensor, name)
    if pending is not ABSENT and pending is not DELETED:
        return pending
    if recorder.modes or (has_a_say(cls) or asks_first(cls)) and not recorder.subclasses_off:
        return modes.shown_by_torch(session, found.__get__, (tensor,), {})
    return recorder.attribute(tensor, name)


def _is_of_torch(found: property) -> bool:
    """Return whether a property is one that torch's own class of tensors came with."""
    return is_a(found.fget, types.FunctionType) and found.fget.__globals__ is _OF_TORCH


def _slot(session: Session, tensor: torch.Tensor, name: str, found: Any) -> Any:
    world = session.world
    pending = world.overlay.get((id(tensor), name), ABSENT)
    if pending is not ABSENT and pending is not DELETED:
        return pending
    record = world.by_seen.get(id(tensor))
    if record is None and pending is ABSENT:
        entry = _of_result(session, tensor, name)
        if entry is not ABSENT:
            return entry
    if record is None or pending is DELETED:
        raise AttributeError(f"{name_of(type(tensor))!r} object has no attribute {name!r}", name=name, obj=tensor)
    # an empty one raises, as it does outside
    return let_in(world, found.__get__(record.original), record.origin.to("slot", name))


def _own_entry(session: Session, tensor: torch.Tensor, name: str) -> Any:
    """Look up a name in the dictionary of the tensor, pending writes included; ABSENT where there is none."""
    world = session.world
    pending = world.overlay.get((id(tensor), name), ABSENT)
    if pending is not ABSENT:
        return ABSENT if pending is DELETED else pending
    record = world.by_seen.get(id(tensor))
    if record is not None:
        own = _core.own_dict(record.original)
        origin = record.origin.to("dict")
        if name in own:
            return let_in(world, own[name], origin.to("item", name))
        world.guard(origin, "ABSENT", name, name)
        return ABSENT
    return _of_result(session, tensor, name)


def _of_result(session: Session, tensor: torch.Tensor, name: str) -> Any:
    """Look up what the result of an operation holds beside its data: wrapper subclasses alone do."""
    if not is_wrapper(type(tensor)):
        return ABSENT
    try:
        return attribute_of_result(session.recorder, tensor, name)
    except KeyError:
        return ABSENT


def _bound(session: Session, tensor: torch.Tensor, name: str, found: Any, kind: type) -> Any:
    """Bind an attribute of the class to an instance."""
    world, cls = session.world, type(tensor)
    if kind is types.FunctionType or kind is _core.Compiled:
        return types.MethodType(found, tensor)
    if kind is types.MemberDescriptorType:
        return _slot(session, tensor, name, found)
    if kind is classmethod:
        return bound_to_class(world, found, cls)[0]
    if kind in _C_METHODS:
        return found.__get__(tensor, cls)
    pending = world.classes.is_pending(cls, name)
    if kind is staticmethod:
        return found.__func__ if pending else let_in(world, found.__func__, const(found).to("attr", "__func__"))
    value = found if pending else let_in(world, found, const(cls).to("lookup", name))
    if not has_member(kind, "__get__") or is_a(found, type) or type(found) is types.BuiltinFunctionType:
        return value
    getter = world.classes.lookup(kind, "__get__")
    if not is_a(getter, types.FunctionType):
        raise Interrupt("opaque-object", f"{module_of(kind)}.{qualname_of(kind)}")
    return _core.captured(getter, (value, tensor, cls), None)


def store(session: Session, tensor: torch.Tensor, name: str, value: Any) -> None:
    """`tensor.name = value`."""
    setter = session.lookup(type(tensor), "__setattr__")
    if is_a(setter, types.FunctionType):
        _core.captured(setter, (tensor, name, value), None)
    else:
        generic_store(session, tensor, name, value)


def generic_store(session: Session, tensor: torch.Tensor, name: str, value: Any) -> None:
    """Write an attribute as `object.__setattr__` does; the write is pending."""
    world, cls = session.world, type(tensor)
    found = world.classes.lookup(cls, name)
    if is_wrapper(cls) and holds(session.recorder, tensor, name):
        raise Interrupt("effect-object", f"{qualname_of(cls)}.{name}")
    if is_a(found, property) and not _is_of_torch(found):
        if found.fset is None:
            found.__set__(tensor, value)  # raises, in CPython's own words
        _core.captured(found.fset, (tensor, value), None)
    elif found is not ABSENT and is_data_descriptor(session.world, found):
        tensor_writes.store_attribute(session, tensor, name, value)
    elif found is not ABSENT and not is_a(found, _C_METHODS) or found is ABSENT:
        world.overlay[(id(tensor), name)] = value
        world.write("tensorattr", tensor, name, value)
    else:
        raise Interrupt("effect-object", f"{qualname_of(cls)}.{name}")


def delete(session: Session, tensor: torch.Tensor, name: str) -> None:
    """`del tensor.name`."""
    deleter = session.lookup(type(tensor), "__delattr__")
    if is_a(deleter, types.FunctionType):
        _core.captured(deleter, (tensor, name), None)
    else:
        generic_delete(session, tensor, name)


def generic_delete(session: Session, tensor: torch.Tensor, name: str) -> None:
    """Delete an attribute as `object.__delattr__` does; the write is pending."""
    found = session.lookup(type(tensor), name)
    if is_a(found, property) and not _is_of_torch(found):
        if found.fdel is None:
            found.__delete__(tensor)  # raises, in CPython's own words
        _core.captured(found.fdel, (tensor,), None)
        return
    own = found is ABSENT or not is_data_descriptor(session.world, found)
    if own and _own_entry(session, tensor, name) is ABSENT:  # what classes or `__getattr__` have does not count
        raise AttributeError(f"{name_of(type(tensor))!r} object has no attribute {name!r}", name=name, obj=tensor)
    tensor_writes.delete_attribute(session, tensor, name, own)

"""Attribute reads and writes on external classes and super objects, and on classes met through internal instances."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...guards.checks import check
from ...vocabulary.class_reads import OF_CLASS_BODIES, flags_of, has_member, members_of, module_of, mro_of, qualname_of
from ...vocabulary.origins import const
from ...vocabulary.plain_types import FUNCTIONS
from ...vocabulary.reasons import Interrupt
from ..becomes.arrays import ARRAY_OUTSIDE, Array
from ..becomes.leaves import LEAF_TYPES, is_constant, is_leaf
from ..becomes.opaque import Opaque, refused
from ..gateway import let_in
from ..lazy.class_dict import class_dict
from ..lazy.view import View
from ..records import ABSENT
from ..world import World
from .instances import (
    INSTANCE,
    NATIVE,
    VALUE,
    bound_as,
    bound_to_class,
    call_special,
    is_data_descriptor,
    is_data_descriptor_type,
)

_HEAP_TYPE = 1 << 9
_NATIVE_ON_TYPES = frozenset(
    {
        "__mro__",
        "__bases__",
        "__base__",
        "__class__",
        "__subclasshook__",
        "__new__",
        "__init_subclass__",
        "mro",
        "__subclasses__",
        "__instancecheck__",
        "__subclasscheck__",
        "__call__",
        "__prepare__",
        "__flags__",
        "__basicsize__",
        "__itemsize__",
        "__dictoffset__",
        "__weakrefoffset__",
        "__type_params__",
    }
)
_ORDER = frozenset({"__mro__", "__bases__", "__base__", "mro"})
_OF_TYPES = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
#: attributes that `type` keeps in each class for itself, and what they are
_OWN_ENTRIES: dict[str, type] = {"__annotations__": dict, "__abstractmethods__": frozenset}
_LEAVES_OF_TYPES = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__text_signature__"})
#: the data descriptors of `type` and `object`: they come before what a class holds
_OF_TYPE: dict[str, Any] = {
    name: found
    for base in (object, type)
    for name, found in members_of(base).items()
    if is_data_descriptor_type(type(found))
}


def _reader(name: str) -> Callable[[type], Any]:
    def read(cls: type) -> Any:
        return _OF_TYPE[name].__get__(cls)

    read.__name__ = name
    return read


#: texts that `type` keeps, read past a metaclass of the program's
_TEXT_OF_TYPE: dict[str, Callable[[type], Any]] = {name: _reader(name) for name in _LEAVES_OF_TYPES}


def read_class(world: World, cls: type, name: str) -> Any:
    """`cls.name` for any class: its metaclass's `__getattribute__`, then `__getattr__` when that has no answer."""
    world.classes.note_kind(cls)
    meta = type(cls)
    getter = world.classes.lookup(meta, "__getattribute__")
    # a member of an enumeration of torch's
    if type(found := members_of(cls).get(name, ABSENT)) is cls and _core.is_plain_class(cls) and cls in LEAF_TYPES:
        value = let_in(world, found, const(cls).to("attr", name))
        _core.know(cls, name, VALUE, value)
        return value
    generic = getter is type.__getattribute__
    missing: AttributeError | None = None
    try:
        value = (
            _generic_read(world, cls, name) if generic else call_special(world, cls, "__getattribute__", getter, name)
        )
        if value is not ABSENT or not generic:
            return value
    except AttributeError as error:  # of a property of the metaclass, or a descriptor
        missing = error
    fallback = ABSENT if meta is type else world.classes.lookup(meta, "__getattr__")
    if fallback is not ABSENT:
        return call_special(world, cls, "__getattr__", fallback, name)
    raise missing or _no_class_attribute(world, cls, name)


def generic_read_class(world: World, cls: type, name: str) -> Any:
    """Read an attribute of a class as `type.__getattribute__` does."""
    value = _generic_read(world, cls, name)
    if value is ABSENT:
        raise _no_class_attribute(world, cls, name)
    return value


def _no_class_attribute(world: World, cls: type, name: str) -> AttributeError:
    if not _core.is_python_class(cls) and not _is_pending(world, cls, name):
        try:  # by the name that C code gave the type
            type.__getattribute__(cls, name)
        except AttributeError as native:
            return native.with_traceback(None)
    error = AttributeError(f"type object {_TEXT_OF_TYPE['__name__'](cls)!r} has no attribute {name!r}")
    error.name, error.obj = name, cls
    return error


def _generic_read(world: World, cls: type, name: str) -> Any:
    """Read an attribute of a class as `type.__getattribute__` does; ABSENT where there is none."""
    meta = type(cls)
    if issubclass(meta, enum.EnumMeta):
        member = members_of(cls).get("_member_map_", {}).get(name, ABSENT)
        if member is not ABSENT:
            value = let_in(world, member, const(cls).to("attr", name))
            _core.know(cls, name, VALUE, value)
            return value
    on_meta = _on_meta(world, meta, name)
    if is_data_descriptor(world, on_meta) and has_member(type(on_meta), "__get__"):
        return _from_class(world, meta, meta, name, on_meta, cls)
    if on_meta is ABSENT and name in _OF_TYPE:  # before what the class itself holds
        return read_of_type(world, cls, name)
    found = world.classes.lookup(cls, name)
    if found is not ABSENT:
        return _from_class(world, cls, cls, name, found, None)
    if on_meta is not ABSENT:
        return _from_class(world, meta, meta, name, on_meta, cls)
    if name in _NATIVE_ON_TYPES:
        return type.__getattribute__(cls, name)
    if hasattr(type, name):
        raise Interrupt("opaque-object", f"type.{name}")
    return ABSENT


def _is_pending(world: World, cls: type, name: str) -> bool:
    return any((id(base), name) in world.overlay for base in mro_of(cls))


def read_of_type(world: World, cls: type, name: str) -> Any:
    """Read an attribute of a class by a data descriptor of `type`."""
    if name == "__dict__":
        return class_dict(world, cls)
    if name in _LEAVES_OF_TYPES:
        return text_of_class(world, cls, name)
    if name in _OWN_ENTRIES:
        return _own_entry(world, cls, name)
    if name in _ORDER:
        world.classes.note_order(cls)
    if name in _NATIVE_ON_TYPES:
        return type.__getattribute__(cls, name)
    raise Interrupt("opaque-object", f"type.{name}")


def text_of_class(world: World, cls: type, name: str) -> Any:
    """A text that `type` keeps for a class.  What the class holds in its place is read as any entry."""
    entry = members_of(cls).get(name) if name in ("__doc__", "__module__") and flags_of(cls) & _HEAP_TYPE else None
    if not is_leaf(entry):
        return _from_class(world, cls, cls, name, world.classes.lookup(cls, name), None)
    value = _TEXT_OF_TYPE[name](cls)
    plain = world.classes.lookup(type(cls), "__getattribute__") is type.__getattribute__
    world.guard(const(cls).to("attr", name) if plain else const(cls).to("ask", _TEXT_OF_TYPE[name]), "EQ", value)
    return value


def _on_meta(world: World, meta: type, name: str) -> Any:
    """Look up a name in the program's own metaclasses; what `type` has is CPython's."""
    found = ABSENT if meta is type else world.classes.lookup(meta, name)
    if not is_a(found, _OF_TYPES):
        return found
    if not hasattr(type, name) and name not in members_of(type):
        raise Interrupt("opaque-object", f"{qualname_of(meta)}.{name}")
    return ABSENT


@check
def _has_no(name: str, now: type) -> bool:
    return type(members_of(now).get(name)) is not _OWN_ENTRIES[name]


def _own_entry(world: World, cls: type, name: str) -> Any:
    """Look up a name in the class alone, without its bases, as `type` does."""
    if (id(cls), name) in world.overlay:
        raise Interrupt("opaque-object", f"{qualname_of(cls)}.{name}")
    try:
        # annotations that are not there yet are made now, as by any first read
        value = type.__getattribute__(cls, name)
    except AttributeError:
        world.guard(const(cls), "CHECK", (functools.partial(_has_no, name), f"has no {name}"), name)
        raise
    if type(value) is not _OWN_ENTRIES[name] or value is not members_of(cls).get(name):
        raise Interrupt("opaque-object", f"{qualname_of(cls)}.{name}")
    return let_in(world, value, const(cls).to("attr", name))


def _from_class(world: World, cls: type, holder: type, name: str, found: Any, instance: Any) -> Any:
    """Bind what a class dictionary holds, as `type.__getattribute__` and `super` do (None: through the class)."""
    kind = bound_as(world, type(found))
    pending = world.classes.is_pending(holder, name)
    if kind is types.FunctionType or kind is _core.Compiled:
        value = found if instance is None else types.MethodType(found, instance)
    elif kind is staticmethod:
        value = found.__func__ if pending else let_in(world, found.__func__, const(found).to("attr", "__func__"))
    elif kind is classmethod:
        value, lasts = bound_to_class(world, found, cls)
        if not lasts:
            return value
    elif kind is types.GetSetDescriptorType or kind is types.MemberDescriptorType:
        if instance is not None:
            return _through_descriptor(world, instance, name, found)
        value = found
    elif kind is property:
        if instance is not None:
            return _core.captured(found.fget, (instance,), None) if found.fget is not None else found.__get__(instance)
        value = found
    elif kind in FUNCTIONS:
        value = found if pending else let_in(world, found, const(holder).to("lookup", name))
        value = value if instance is None else types.MethodType(value, instance)
    elif pending:
        value = found
    elif is_a(found, (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)):
        value = found.__get__(instance, cls)
    elif (
        has_member(kind, "__get__")
        and not is_a(found, type)
        and (not is_constant(found) or _core.is_python_class(kind))
    ):
        getter = world.classes.lookup(kind, "__get__")
        if not is_a(getter, types.FunctionType):
            raise Interrupt("opaque-object", f"{module_of(kind)}.{qualname_of(kind)}")
        descriptor = let_in(world, found, const(holder).to("lookup", name))
        return _core.captured(getter, (descriptor, instance, cls), None)
    else:
        value = let_in(world, found, const(holder).to("lookup", name))
    # By way of `super` the name leads elsewhere; and a metaclass's own code is asked at each read.
    if (
        instance is None
        and holder is cls
        and world.classes.lookup(type(cls), "__getattribute__") is type.__getattribute__
    ):
        _core.know(cls, name, VALUE, value)
    return value


#: what only binds to an instance: nothing else is looked up or guarded
_BIND_ONLY = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def read_super(world: World, obj: Any, name: str) -> Any:
    """`super(cls, self).name`: the MRO after `cls`, guarding each class passed on the way."""
    this, receiver, start = obj.__thisclass__, obj.__self__, obj.__self_class__
    if name == "__class__" or start is None:
        return getattr(obj, name)
    if type(receiver) is Opaque:
        raise refused(receiver)
    instance = None if receiver is start and is_a(receiver, type) else receiver
    place = (id(start), id(this), name)
    known = world.classes.inherited.get(place)
    if known is not None and instance is not None:
        return known.__get__(instance, start)
    world.classes.note_order(start)
    mro = mro_of(start)
    for base in mro[mro.index(this) + 1 :]:
        pending = world.overlay.get((id(base), name), ABSENT)
        found = world.classes.lookup(base, name)
        if pending is ABSENT and name not in members_of(base):
            continue
        if pending is ABSENT and type(found) in _BIND_ONLY:
            world.classes.inherited[place] = found
            world.keep.append(start)
        return _from_class(world, start, base, name, found, instance)
    return object.__getattribute__(obj, name)  # what a super object has itself; or it raises, in CPython's own words


def _through_descriptor(world: World, instance: Any, name: str, found: Any) -> Any:
    """Read a C field of an object: of a value that of the value, of others as without `super`."""
    if is_a(instance, torch.Tensor):
        return world.of_tensor(instance, name, found)
    if is_leaf(instance) and not _core.is_python_class(type(instance)):
        return found.__get__(instance)
    if (
        world.classes.lookup(type(instance), name) is not found
        or world.classes.lookup(type(instance), "__getattribute__") is not object.__getattribute__
    ):
        raise Interrupt("opaque-object", f"super().{name}")
    return _core.read(instance, name)


def _of_builtin_type(builtin_type: type, name: str) -> Any:
    """Read such an attribute of an instance of a built-in type."""
    found = _core.type_lookup(builtin_type, name, ABSENT)
    if found is ABSENT:
        raise AttributeError(f"{_core.type_name(builtin_type)!r} object has no attribute {name!r}", name=name)
    return found


def class_attribute(world: World, cls: type, name: str) -> tuple[int, Any]:
    """How reads of `name` on internal instances of `cls` are answered (see `Answer` in rehearsal.h)."""
    if name in OF_CLASS_BODIES and issubclass(cls, (View, Array)):
        return VALUE, _of_builtin_type(ARRAY_OUTSIDE if issubclass(cls, Array) else cls.builtin_type, name)
    getter = world.classes.lookup(cls, "__getattribute__")
    if getter is not object.__getattribute__ and is_a(getter, types.FunctionType):
        return NATIVE, None
    if world.classes.lookup(cls, name) is ABSENT:
        world.classes.lookup(cls, "__getattr__")
    return class_entry(world, cls, name)


def class_entry(world: World, cls: type, name: str) -> tuple[int, Any]:
    """The same for `object.__getattribute__`, whatever code of its own the class has for reads."""
    found = world.classes.lookup(cls, name)
    if found is ABSENT:
        return NATIVE, None
    kind = type(found)
    if (
        kind in (types.FunctionType, _core.Compiled, property, classmethod, staticmethod)
        or is_constant(found)
        and has_member(kind, "__get__")
    ):
        return NATIVE, None
    holder = next(base for base in mro_of(cls) if (id(base), name) in world.overlay or name in members_of(base))
    if (id(holder), name) in world.overlay:
        return INSTANCE, found
    if has_member(kind, "__get__") or has_member(kind, "__set__"):
        let_in(world, found, const(holder).to("lookup", name))
        return NATIVE, None
    return INSTANCE, let_in(world, found, const(holder).to("lookup", name))


def write_class(world: World, cls: type, name: str, value: Any) -> None:
    """`cls.name = value`: pending where the class is external."""
    world.classes.note_kind(cls)
    setter = world.classes.lookup(type(cls), "__setattr__")
    if setter is not type.__setattr__:
        call_special(world, cls, "__setattr__", setter, name, value)
        return
    generic_write_class(world, cls, name, value)


_IMMUTABLE = 1 << 8  # the flag of classes whose attributes stay as they are


def _check_writable(cls: type, name: str) -> None:
    """C code reads special names unseen, also those of a class with C memory of its own; not tensors'."""
    if (
        name.startswith("__")
        and name.endswith("__")
        or not (_core.is_python_class(cls) or issubclass(cls, torch.Tensor))
    ):
        raise Interrupt("effect-object", f"class attribute {_OF_TYPE['__qualname__'].__get__(cls)}.{name}")


def generic_write_class(world: World, cls: type, name: str, value: Any) -> None:
    """Write an attribute of a class as `type.__setattr__` does; the write is pending."""
    if flags_of(cls) & _IMMUTABLE:
        type.__setattr__(cls, name, value)  # raises, in CPython's own words
    _check_writable(cls, name)
    if not (
        is_leaf(value) or is_a(value, (types.FunctionType, torch.Tensor)) or not has_member(type(value), "__get__")
    ):
        raise Interrupt("effect-object", f"class attribute {_OF_TYPE['__qualname__'].__get__(cls)}.{name}")
    if has_member(type(_on_meta(world, type(cls), name)), "__set__"):
        raise Interrupt("effect-object", f"class attribute {qualname_of(cls)}.{name}, which its metaclass sees to,")
    world.classes.lookup(cls, name)
    world.put(cls, name, value)
    world.write("settype", cls, name, value)
    world.classes.forget()
    _core.forget_name(name)


def delete_class(cls: type, name: str) -> None:
    """`del cls.name`, which no entry does: it would change what all that is below the class inherits."""
    if flags_of(cls) & _IMMUTABLE:
        type.__delattr__(cls, name)  # raises, in CPython's own words
    raise Interrupt("effect-object", f"del {_OF_TYPE['__qualname__'].__get__(cls)}.{name}")

"""Attribute reads and writes on external objects: CPython's own algorithm, guarding exactly what it looked at.

Handles and modules: `read_instance`, `write_instance`.  Classes: classes.py.  What can be answered without
asking again is registered with the probes by `_core.know`.
"""

from __future__ import annotations

import _thread
import datetime
import functools
import sys
import types
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...guards.checks import check
from ...torch_ports.autograd import FunctionBase
from ...vocabulary.class_reads import has_member, members_of, module_of, mro_of, name_of, qualname_of
from ...vocabulary.origins import Origin, const
from ...vocabulary.plain_types import FUNCTIONS
from ...vocabulary.reasons import Interrupt
from ..becomes.leaves import is_leaf
from ..gateway import let_in
from ..lazy.instance_dict import InstanceDict, instance_entry
from ..records import ABSENT, DELETED
from ..world import World
from .owners import own_dict

#: slot wrappers of types whose attribute lookup is the generic one
_GENERIC = frozenset(
    cls.__getattribute__
    for cls in (
        *(object, types.ModuleType, _thread._local),
        *(int, float, complex, str, bytes, tuple, frozenset),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
    )
)
VALUE, METHOD, NATIVE, INSTANCE, GETTER, ASK = range(6)  # rehearsal.h: enum class Answer
#: what autograd keeps for the backward of a custom function, as its `ctx` shows it
_CONTEXT = frozenset({"saved_tensors", "needs_input_grad"})
_DESCRIPTORS = (staticmethod, classmethod, property)
#: types of CPython's own, by their ids: they live as long as the process
_C_KINDS = {
    id(kind): kind
    for kind in (
        *_DESCRIPTORS,
        *(types.FunctionType, types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
        *(types.MethodDescriptorType, object, type, int, bool, float, str, tuple, dict, list, type(None)),
    )
}
_C_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def is_data_descriptor_type(cls: type) -> bool:
    """Return whether instances of this class are data descriptors."""
    return has_member(cls, "__set__") or has_member(cls, "__delete__")


_IS_DATA = {number: is_data_descriptor_type(kind) for number, kind in _C_KINDS.items()}


def origin_of_external(world: World, obj: Any) -> Origin:
    """The origin of a handle; modules, classes and functions are their own roots."""
    found = world.origin_of(obj)
    return found if found is not None else const(obj)


#: what a generic alias answers itself; all else is its class's
_OF_ALIAS = frozenset(
    {
        "__class__",
        "__reduce__",
        "__reduce_ex__",
        "__copy__",
        "__deepcopy__",
        "__mro_entries__",
        *(name for name, found in vars(types.GenericAlias).items() if is_data_descriptor_type(type(found))),
    }
)


def read_alias(_world: World, obj: types.GenericAlias, name: str) -> Any:
    """`list[int].name`."""
    return getattr(obj, name) if name in _OF_ALIAS else _core.read(obj.__origin__, name)


def read_instance(world: World, obj: Any, name: str) -> Any:
    """`obj.name` for a handle or module: `__getattribute__`, then `__getattr__` when that has no answer."""
    if is_a(obj, types.ModuleType):
        world.classes.note_kind(obj)
    generic = id(type(obj)) in world.classes.generic or _has_generic_reads(world, type(obj))
    missing: AttributeError | None = None
    try:
        if not generic:
            getter = world.classes.lookup(type(obj), "__getattribute__")
            return call_special(world, obj, "__getattribute__", getter, name)
        value = generic_read(world, obj, name)
        if value is not ABSENT:
            return value
    except AttributeError as error:  # of a property, a descriptor, an empty slot: `__getattr__` is asked then too
        missing = error
    answers = fallback_read(world, obj, name)
    if not answers:
        raise missing or no_attribute(obj, name)
    return answers[0]


def fallback_read(world: World, obj: Any, name: str) -> tuple[Any, ...]:
    """Call `__getattr__` of a handle or module; empty where there is none."""
    fallback = world.classes.lookup(type(obj), "__getattr__")
    if fallback is not ABSENT:
        return (_fall_back(world, obj, name, fallback),)
    if is_a(obj, types.ModuleType):
        fallback = instance_entry(world, obj, "__getattr__")
        if fallback is not ABSENT:
            return (_core.captured(fallback, (name,), None),)
    return ()


def call_special(world: World, obj: Any, special: str, found: Any, *args: Any) -> Any:
    """Call what the class of `obj` holds under the name of a special method, bound to `obj` as its kind asks for."""
    return _core.captured(*_bound_special(world, obj, special, found, args), None)


def _bound_special(
    world: World, obj: Any, special: str, found: Any, args: tuple[Any, ...]
) -> tuple[Any, tuple[Any, ...]]:
    kind = type(found)
    if kind in FUNCTIONS or kind is _core.Compiled or kind in _C_DESCRIPTORS:
        return found, (obj, *args)
    inside, place = world.classes.is_pending(type(obj), special), type(obj)
    if kind is staticmethod:
        return found.__func__ if inside else let_in(world, found.__func__, const(found).to("attr", "__func__")), args
    if world.classes.lookup(kind, "__get__") is not ABSENT:  # bound by code of its own
        raise Interrupt("opaque-object", f"{module_of(kind)}.{qualname_of(kind)}")
    return found if inside else let_in(world, found, const(place).to("lookup", special)), args


def _know(world: World, obj: Any, name: str, answer: int, payload: Any) -> None:
    """Tell the probes what `obj.name` gives from now on, unless code of the program is asked at each read."""
    if id(type(obj)) in world.classes.generic or _has_generic_reads(world, type(obj)):
        _core.know(obj, name, answer, payload)


def _has_generic_reads(world: World, cls: type) -> bool:
    """Return whether instances of a class find attributes as `object` does, as a fact."""
    if world.classes.lookup(cls, "__getattribute__") not in _GENERIC:
        return False
    world.classes.generic.add(id(cls))
    return True


def generic_read(world: World, obj: Any, name: str) -> Any:
    """Read an attribute with the generic read of an object's type; ABSENT where there is none."""
    if name == "__dict__" and is_a(obj, _thread._local):  # made for each thread; no class has a descriptor of it
        return InstanceDict.of(world, obj)
    found = world.classes.lookup(type(obj), name)
    is_data = _IS_DATA.get(id(type(found)))
    if is_data or is_data is None and is_data_descriptor(world, found):
        return _read_data_descriptor(world, obj, name, found)
    entry = instance_entry(world, obj, name)
    if entry is not ABSENT:
        _know(world, obj, name, VALUE, entry)
        return entry
    if found is not ABSENT:
        return _read_class_entry(world, obj, name, found)
    return ABSENT


#: kinds of dictionaries of which the truth alone is looked at where captured code asks for no more
TABLES: set[type] = set()


def is_empty_table(world: World, obj: Any, name: str) -> bool:
    """Return whether `obj.name` is an empty table in the object's own dictionary, as a fact.

    Where captured code asks for its truth alone it meets no shadow, and the attributes that such a table may have are
    not guarded: the hooks of modules are asked for at every call of a module.
    """
    own = _core.own_dict(obj)
    value: Any = own.get(name) if type(own) is dict else None
    if type(value) not in TABLES or dict.__len__(value):
        return False
    if id(value) in world.memo or (id(obj), name) in world.overlay:
        return False
    place = (id(type(obj)), name)
    if place not in world.classes.read_first:
        if not _is_read_first(world, obj, name):
            return False
        world.classes.read_first.add(place)
    record = world.by_seen.get(id(obj))
    origin = record.origin if record is not None else const(obj)
    world.test_empty(value, origin.to("dict").to("item", name))
    return True


def _is_read_first(world: World, obj: Any, name: str) -> bool:
    """Return whether what the dictionary of an object has under a name is its attribute, as a fact of its class."""
    if is_a(obj, (types.ModuleType, _thread._local)) or not _has_generic_reads(world, type(obj)):
        return False
    found = world.classes.lookup(type(obj), name)
    return found is ABSENT or not is_data_descriptor(world, found)


def no_attribute(obj: Any, name: str) -> AttributeError:
    """The error CPython raises for a missing attribute."""
    kind = f"module {obj.__name__!r}" if is_a(obj, types.ModuleType) else f"{_core.type_name(type(obj))!r} object"
    error = AttributeError(f"{kind} has no attribute {name!r}")
    error.name, error.obj = name, obj
    return error


def _empty_slot(obj: Any, name: str) -> AttributeError:
    """The error of a slot that holds nothing: since CPython 3.13 it says the module of the class, too."""
    cls, error = type(obj), no_attribute(obj, name)
    if sys.version_info >= (3, 13) and module_of(cls) not in ("builtins", "__main__"):
        error.args = (f"'{module_of(cls)}.{qualname_of(cls)}' object has no attribute {name!r}",)
    return error


def is_data_descriptor(world: World, found: Any) -> bool:
    """Return whether what a class holds comes before an object's own attribute of that name."""
    kind = type(found)
    if id(kind) in _IS_DATA:
        return _IS_DATA[id(kind)]
    if not _core.is_python_class(kind):
        return is_data_descriptor_type(kind)
    return [world.classes.lookup(kind, special) for special in ("__set__", "__delete__")] != [ABSENT, ABSENT]


@check
def _is_empty(slot: types.MemberDescriptorType, obj: Any) -> bool:
    """Return whether a slot of an object holds nothing: reading or deleting it raises."""
    try:
        slot.__get__(obj)
    except AttributeError:
        return True
    return False


def bound_as(world: World, kind: type) -> type:
    """The built-in descriptor that binds as this class does: a subclass of one that left its `__get__` alone, or the
    same C code loaded a second time.
    """
    if id(kind) in _C_KINDS:
        return kind
    for base in _DESCRIPTORS:
        if (
            kind is not base
            and issubclass(kind, base)
            and world.classes.lookup(kind, "__get__") is members_of(base)["__get__"]
        ):
            return base
    return kind


def bound_to_class(world: World, method: Any, cls: type) -> tuple[Any, bool]:
    """Bind a classmethod object to a class, and return whether the result is the same object each time.

    Up to CPython 3.12 it calls the descriptor that it was made of.
    """
    inner = method.__func__
    kind = bound_as(world, type(inner))
    plain = kind in FUNCTIONS or kind is _core.Compiled or sys.version_info >= (3, 13)
    if plain or world.classes.lookup(kind, "__get__") is ABSENT:
        if not callable(inner):  # CPython's own method objects hold anything; those that Python code makes do not
            raise Interrupt("unsupported-code", "a classmethod of what cannot be called")
        return types.MethodType(inner, cls), True
    if kind is property and inner.fget is not None:
        return _core.captured(inner.fget, (cls,), None), False
    raise Interrupt("opaque-object", f"a classmethod of {module_of(kind)}.{qualname_of(kind)}")


def _read_data_descriptor(world: World, obj: Any, name: str, found: Any) -> Any:
    cls = _C_KINDS.get(id(type(found))) or bound_as(world, type(found))
    if cls is property:
        if found.fget is None:
            return found.__get__(obj, type(obj))  # raises, in CPython's own words
        _know(world, obj, name, GETTER, found.fget)
        return _core.captured(found.fget, (obj,), None)
    if cls is types.MemberDescriptorType:
        if name == "__dict__" and is_a(obj, types.ModuleType):
            return InstanceDict.of(world, obj)
        pending = world.overlay.get((id(obj), name), ABSENT)
        if pending is DELETED:
            raise _empty_slot(obj, name)
        value = pending
        if pending is ABSENT:
            origin = origin_of_external(world, obj)
            if _is_empty(found, obj):
                world.guard(
                    origin,
                    "CHECK",
                    (functools.partial(_is_empty, found), f"has nothing in its slot {name}"),
                    ("slot", name),
                )
                raise _empty_slot(obj, name)
            value = let_in(world, found.__get__(obj), origin.to("slot", name))
        _know(world, obj, name, VALUE, value)
        return value
    if cls is types.GetSetDescriptorType:
        if name == "__dict__":
            return InstanceDict.of(world, obj)
        if name == "__class__":
            return type(obj)
        if name == "__weakref__":
            return None
        if name in _CONTEXT and is_a(obj, FunctionBase):
            value = let_in(world, found.__get__(obj), origin_of_external(world, obj).to("attr", name))
            _know(world, obj, name, VALUE, value)
            return value
        raise Interrupt("opaque-object", f"{qualname_of(type(obj))}.{name}")
    return _call_get(world, obj, name, found)


def _call_get(world: World, obj: Any, name: str, found: Any) -> Any:
    getter = world.classes.lookup(type(found), "__get__")
    if getter is ABSENT:
        entry = instance_entry(world, obj, name)
        return entry if entry is not ABSENT else found
    if not is_a(getter, types.FunctionType):
        raise Interrupt("opaque-object", f"{module_of(type(found))}.{qualname_of(type(found))}")
    descriptor = let_in(world, found, const(_holder(type(obj), name)).to("lookup", name))
    return _core.captured(getter, (descriptor, obj, type(obj)), None)


def _holder(cls: type, name: str) -> type:
    return next(base for base in mro_of(cls) if name in members_of(base))


def _read_class_entry(world: World, obj: Any, name: str, found: Any) -> Any:
    """The class holds a function, a bound kind, or a plain value."""
    cls = _C_KINDS.get(id(type(found))) or bound_as(world, type(found))
    if cls is types.FunctionType or cls is _core.Compiled:
        _know(world, obj, name, METHOD, found)
        return types.MethodType(found, obj)
    if cls is staticmethod:
        value = let_in(world, found.__func__, const(found).to("attr", "__func__"))
        _know(world, obj, name, VALUE, value)
        return value
    if cls is classmethod:
        value, lasts = bound_to_class(world, found, type(obj))
        if lasts:
            _know(world, obj, name, VALUE, value)
        return value
    if cls in FUNCTIONS:
        value = types.MethodType(let_in(world, found, const(_holder_or(type(obj), name)).to("lookup", name)), obj)
        _know(world, obj, name, VALUE, value)
        return value
    if is_a(found, _C_DESCRIPTORS):
        _know(world, obj, name, NATIVE, None)
        return found.__get__(obj, type(obj))
    if has_member(cls, "__get__") and not is_a(found, type):
        return _call_get(world, obj, name, found)
    pending = world.classes.is_pending(type(obj), name)
    value = found if pending else let_in(world, found, const(type(obj)).to("lookup", name))
    _know(world, obj, name, VALUE, value)
    return value


def _holder_or(cls: type, name: str) -> type:
    for base in mro_of(cls):
        if name in members_of(base):
            return base
    return cls


_MODULE_GETATTR = torch.nn.Module.__getattr__


def _fall_back(world: World, obj: Any, name: str, fallback: Any) -> Any:
    if fallback is _MODULE_GETATTR:
        value = _module_entry(world, obj, name)
        if value is not ABSENT:
            return value
    return call_special(world, obj, "__getattr__", fallback, name)


def _module_entry(world: World, obj: torch.nn.Module, name: str) -> Any:
    """The fast path for parameters, buffers and submodules: the same dictionaries `Module.__getattr__` looks into."""
    own = own_dict(obj) or {}
    record = world.by_seen.get(id(obj))
    origin = (record.origin if record is not None else const(obj)).to("dict")
    for part in ("_parameters", "_buffers", "_modules"):
        if (id(obj), part) in world.overlay or part not in own:
            return ABSENT  # unusual: let the method itself decide
        table = own[part]
        if type(table) is not dict:
            return ABSENT
        known = world.memo.get(id(table))
        if known is not None:  # a shadow exists: it is the truth from then on
            if name in known.seen:
                return known.seen[name]
            continue
        place = origin.to("item", part)
        world.guard(place, "TYPE", dict)
        if name in table:
            value = let_in(world, table[name], place.to("item", name))
            world.parts.read_through(table, obj, name)
            _know(world, obj, name, VALUE, value)
            return value
        world.guard(place, "ABSENT", name, name)
    return ABSENT


#: the native core answers the usual reads itself, as `read_instance` does
_core.connect(
    absent=ABSENT,
    origin_type=Origin,
    let_in=let_in,
    read_instance=read_instance,
    module_getattr=_MODULE_GETATTR,
    thread_local=_thread._local,
    instance_dict=InstanceDict,
)


def write_instance(world: World, obj: Any, name: str, value: Any) -> None:
    """`obj.name = value` for a handle or module."""
    if is_a(obj, (BaseException, types.TracebackType)):
        raise Interrupt("effect-object", f"{name_of(type(obj))}.{name}")
    if is_a(obj, types.ModuleType):
        world.classes.note_kind(obj)
    setter = world.classes.lookup(type(obj), "__setattr__")
    if setter not in (object.__setattr__, _thread._local.__setattr__):
        call_special(world, obj, "__setattr__", setter, name, value)
        return
    generic_write(world, obj, name, value)


def generic_write(world: World, obj: Any, name: str, value: Any) -> None:
    """Write an attribute as `object.__setattr__` does; the write is pending."""
    found = world.classes.lookup(type(obj), name)
    if found is not ABSENT and is_data_descriptor(world, found):
        cls = type(found)
        if cls is property:
            if found.fset is None:
                return found.__set__(obj, value)  # raises, in CPython's own words
            _core.captured(found.fset, (obj, value), None)
            return
        if cls is not types.MemberDescriptorType:
            setter = world.classes.lookup(cls, "__set__")
            if not is_a(setter, types.FunctionType):
                raise Interrupt("effect-object", f"{qualname_of(type(obj))}.{name}")
            descriptor = let_in(world, found, const(_holder(type(obj), name)).to("lookup", name))
            _core.captured(setter, (descriptor, obj, value), None)
            return
    elif own_dict(obj) is None:
        return object.__setattr__(obj, name, value)  # raises, in CPython's own words
    if is_a(obj, types.ModuleType):  # its attributes are the globals of its functions
        write_global(world, own_dict(obj), name, value)
        return
    world.put(obj, name, value)
    world.write("setdict" if is_a(obj, _thread._local) else "setattr", obj, name, value)
    _know(world, obj, name, VALUE, value)


def write_global(world: World, table: Any, name: str, value: Any) -> None:
    """A write (or, with DELETED, a delete) to a module's globals, seen by name and as an attribute alike."""
    world.overlay[(id(table), name)] = value
    world.own_root(table)
    world.write("delglobal" if value is DELETED else "setglobal", table, name, None if value is DELETED else value)
    _core.forget_name(name)


def delete_instance(world: World, obj: Any, name: str) -> None:
    """`del obj.name` for a handle or module."""
    if type(obj) is types.TracebackType:
        raise Interrupt("effect-object", f"{name_of(type(obj))}.{name}")
    if is_a(obj, types.ModuleType):
        world.classes.note_kind(obj)
    deleter = world.classes.lookup(type(obj), "__delattr__")
    if deleter not in (object.__delattr__, _thread._local.__delattr__):
        call_special(world, obj, "__delattr__", deleter, name)
        return
    generic_delete(world, obj, name)


def generic_delete(world: World, obj: Any, name: str) -> None:
    """Delete an attribute as `object.__delattr__` does; the write is pending."""
    found = world.classes.lookup(type(obj), name)
    if found is not ABSENT and is_data_descriptor(world, found):
        if type(found) is property:
            if found.fdel is None:
                return found.__delete__(obj)  # raises, in CPython's own words
            _core.captured(found.fdel, (obj,), None)
            return
        if type(found) is not types.MemberDescriptorType:
            raise Interrupt("effect-object", f"del {qualname_of(type(obj))}.{name}")
        try:
            _read_data_descriptor(world, obj, name, found)
        except AttributeError:
            raise AttributeError(name) from None  # nothing to delete, in CPython's own words
        world.overlay[(id(obj), name)] = DELETED
        world.write("delattr", obj, name, None)
        _core.forget(obj, name)
        return
    if instance_entry(world, obj, name) is ABSENT:
        raise AttributeError(f"{_core.type_name(type(obj))!r} object has no attribute {name!r}")
    if is_a(obj, types.ModuleType):
        write_global(world, own_dict(obj), name, DELETED)
        return
    world.overlay[(id(obj), name)] = DELETED
    world.write("deldict" if is_a(obj, _thread._local) else "delattr", obj, name, None)
    _core.forget(obj, name)


def leaf_attribute(world: World, obj: Any, name: str) -> Any:
    """An attribute that C code keeps (`__name__`, `__qualname__`): read natively, guarded by equality."""
    value = getattr(obj, name)
    origin = (world.functions.origins.get(id(obj)) or const(obj)).to("attr", name)
    if is_leaf(value):
        world.guard(origin, "EQ", value)
        return value
    return let_in(world, value, origin)

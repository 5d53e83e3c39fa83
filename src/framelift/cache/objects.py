"""Objects that captures name by identity, as data: what they are, and which other objects they are made of for good.

A row of `FORMS` says what is written of an object of one kind: plain facts, and parts.  Both are all that identity
tells of it: what can be changed about an object (the entries of a dictionary, the defaults of a function) is guarded
where it is read, so it is not here.  In another process an object stands for the one that was written where its
facts are equal and its parts stand for the parts.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._core import is_a
from ..boundary.becomes.immutable_objects import carried_values
from ..boundary.gateway import is_handle_class
from ..guards.kinds import immutable_leaf
from ..torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..torch_ports.state import get_tracing_state
from ..torch_ports.tensors import VariableFunctions
from ..vocabulary.class_reads import (
    basicsize_of,
    dictoffset_of,
    flags_of,
    itemsize_of,
    module_of,
    mro_of,
    qualname_of,
    weakrefoffset_of,
)
from ..vocabulary.torch_code import is_torch_class
from ..vocabulary.written_forms import FORMS, NotKept, WrittenForm
from .called_operators import operator_facts
from .code_hash import code_hash
from .importable_names import module_name, name_for, space_name

#: what functions of extension modules hold as `__self__`, which says nothing more of them
_C_RECORDS = (type(datetime.datetime_CAPI), type(get_tracing_state.__self__))


#: flags of a class that say what was done with it so far: its version is valid, it is ready
_PASSING = 1 << 19 | 1 << 12 | 1 << 13
_TUPLE_FIELD: type = type(vars(inspect.FullArgSpec)["args"])  # an item of a named tuple
_VARIABLE_FUNCTIONS = type(VariableFunctions)


def facts_of(obj: Any) -> WrittenForm:
    """Return the written form of an object; raises `NotKept`."""
    form = FORMS.get(type(obj))
    if form is not None:
        return form(obj)
    if is_a(obj, type):
        return _class(obj)
    if is_a(obj, types.ModuleType):
        return _module(obj)
    if is_a(obj, enum.Enum):
        return _member(obj)
    if is_a(obj, HigherOrderOperator) and is_torch_class(type(obj)):
        return WrittenForm("higher-order operator", [obj.name()])
    if is_a(obj, torch.Tensor):  # its facts are guarded where they are read
        return WrittenForm("tensor", [], (type(obj),))
    if is_a(obj, property):
        return WrittenForm("property of a class", [], (type(obj), obj.fget, obj.fset, obj.fdel))
    if is_handle_class(type(obj)):
        return WrittenForm("instance", [], (type(obj),))
    raise NotKept("an object has no written form", _shown(obj))


def _shown(obj: Any) -> str:
    return f"{module_of(type(obj))}.{qualname_of(type(obj))}"


def _member(obj: enum.Enum) -> WrittenForm:
    """A member: its name, its class, and what it carries in its data type.  Its attributes are guarded."""
    carried = carried_values(obj)
    if carried is None:
        raise NotKept("a member of an enumeration with a data type that is not known", _shown(obj))
    return WrittenForm("member", [_core.own_dict(obj)["_name_"]], (type(obj), *carried))


def _function(obj: types.FunctionType) -> WrittenForm:
    cells = len(obj.__closure__ or ())
    return WrittenForm("function", [obj.__name__, obj.__qualname__, code_hash(obj.__code__), cells], (obj.__globals__,))


def _class(cls: type) -> WrittenForm:
    name = [module_of(cls), qualname_of(cls)]
    if type(name[0]) is not str:
        found = name_for(cls)
        if found is None:
            raise NotKept("a class does not know its module", qualname_of(cls))
        name = found
    if not _core.is_python_class(cls):
        return WrittenForm("C class", name, (type(cls),) if type(cls) is not type else ())
    layout = [basicsize_of(cls), itemsize_of(cls), dictoffset_of(cls), weakrefoffset_of(cls)]
    return WrittenForm("class", [*name, flags_of(cls) & ~_PASSING, *layout], (type(cls), *mro_of(cls)[1:]))


def _module(module: types.ModuleType) -> WrittenForm:
    return WrittenForm("module", [module_name(module)])


def _dict(table: dict[Any, Any]) -> WrittenForm:
    name = space_name(table)
    return WrittenForm("container", ["dict"]) if name is None else WrittenForm("globals", [name])


def _container(obj: Any) -> WrittenForm:
    return WrittenForm("container", [type(obj).__name__])


def _builtin(obj: types.BuiltinFunctionType) -> WrittenForm:
    owner = obj.__self__
    if owner is None or is_a(owner, (types.ModuleType, type)) or type(owner) is _VARIABLE_FUNCTIONS:
        part: tuple[Any, ...] = (owner,) if is_a(owner, type) else ()
    elif type(owner) in _C_RECORDS:
        part = ()
    elif immutable_leaf(owner):
        part = (owner,)
    else:
        raise NotKept("a bound method of an object written in C", obj.__qualname__)
    return WrittenForm("C function", [str(obj.__module__), obj.__qualname__], part)


def _descriptor(obj: Any) -> WrittenForm:
    return WrittenForm("descriptor", [type(obj).__name__, obj.__name__], (obj.__objclass__,))


def _property(obj: property) -> WrittenForm:
    return WrittenForm("property", [], (obj.fget, obj.fset, obj.fdel))


def _wrapped(obj: Any) -> WrittenForm:
    return WrittenForm(type(obj).__name__, [], (obj.__func__,))


def _operator(obj: Any) -> WrittenForm:
    return WrittenForm("operator", operator_facts(obj))


def _frozen_set(obj: frozenset[Any]) -> WrittenForm:
    """A set of functions and classes, by their names: these say which objects they are, in an order."""
    names = [name_for(one) for one in obj]
    if None in names:
        raise NotKept("a set holds objects without a name")
    return WrittenForm("frozen set", sorted(names, key=repr))


_OWN_FORMS: dict[type, Callable[[Any], WrittenForm]] = {
    types.FunctionType: _function,
    types.BuiltinFunctionType: _builtin,
    types.ModuleType: _module,
    dict: _dict,
    list: _container,
    set: _container,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    property: _property,
    frozenset: _frozen_set,
    _VARIABLE_FUNCTIONS: lambda obj: WrittenForm("functions of torch", []),
    _TUPLE_FIELD: lambda obj: WrittenForm("field", [obj.__reduce__()[1][0]]),
    types.UnionType: lambda obj: WrittenForm("union", [], obj.__args__),
    types.GenericAlias: lambda obj: WrittenForm("generic alias", [], (obj.__origin__, obj.__args__, obj.__unpacked__)),
    staticmethod: _wrapped,
    classmethod: _wrapped,
    OpOverload: _operator,
    OpOverloadPacket: _operator,
}
FORMS.update(_OWN_FORMS)

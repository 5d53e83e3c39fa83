"""Callables that read external objects past the probes, and what runs instead of them.

A handler has the parameters of the callable, after the session, and runs paused.  `_core.captured` and `_core.read`
lead back into captured code.  One small function per callable.
"""

from __future__ import annotations

import _thread
import builtins
import sys
import types
from typing import Any

import torch

from ... import _core
from ..._core import id, is_a
from ...boundary.attributes import instances
from ...boundary.attributes.classes import class_entry, generic_read_class, generic_write_class
from ...boundary.becomes.arrays import Array, Scalar
from ...boundary.becomes.leaves import is_leaf
from ...boundary.becomes.opaque import Opaque, refused
from ...boundary.lazy.view import View
from ...boundary.records import ABSENT
from ...bytecode import source_of
from ...calls.call_tables import SUBSTITUTES, pure, substitute
from ...calls.frame_views import caller, frame_locals
from ...graph.symbols.numbers import NUMBERS
from ...graph.symbols.numpy_numbers import NumpyNumber
from ...overriding import tensor_attributes
from ...recording.session import Session
from ...torch_ports.compiling import utils_is_compiling
from ...torch_ports.graphs import FX_TRACING_READS
from ...vocabulary.class_reads import dictoffset_of, name_of
from ...vocabulary.reasons import Interrupt
from .code_objects import makes_class

# super() looks at the calling frame, and that is the twin's: same cells, same first local.
pure(super)


@substitute(getattr)
def _getattr(session: Session, obj: Any, name: Any, default: Any = ABSENT, /) -> Any:
    if not is_a(name, str):
        return getattr(obj, name)  # raises
    try:
        return _core.read(obj, _interned(name))
    except AttributeError:
        if default is ABSENT:
            raise
        return default


@substitute(hasattr)
def _hasattr(session: Session, obj: Any, name: Any, /) -> bool:
    if not is_a(name, str):
        return hasattr(obj, name)  # raises
    try:
        _core.read(obj, _interned(name))
    except AttributeError:
        return False
    return True


_STORE, _DELETE = _core.PROBES["store_attr"], _core.PROBES["delete_attr"]


@substitute(setattr)
def _setattr(session: Session, obj: Any, name: Any, value: Any, /) -> Any:
    return _core.natively(_STORE, (value, obj, _interned(name)), None)


@substitute(delattr)
def _delattr(session: Session, obj: Any, name: Any, /) -> Any:
    return _core.natively(_DELETE, (obj, _interned(name)), None)


def _interned(name: Any) -> str:
    if not is_a(name, str):
        raise TypeError(f"attribute name must be string, not {name_of(type(name))!r}")
    if type(name) is not str:
        if any(_core.type_lookup(type(name), asked, None) is not vars(str)[asked] for asked in ("__hash__", "__eq__")):
            # tables of attributes ask it
            raise Interrupt("callable-on-handle", "an attribute whose name hashes itself")
        name = str.__str__(name)
    return sys.intern(name)


@substitute(object.__getattribute__)
def _object_getattribute(session: Session, obj: Any, name: Any, /) -> Any:
    """The generic read, past code of the object's class.  What it finds is guarded, whatever the object."""
    cls = type(obj)
    if not is_a(name, str):
        return _core.natively(object.__getattribute__, (obj, name), None)
    _known(obj, "object.__getattribute__")
    if issubclass(cls, torch.Tensor):
        return tensor_attributes.generic_load(session, obj, _interned(name))
    if _core.is_external(obj) or is_a(obj, types.ModuleType) and not _core.is_internal(obj):
        value = instances.generic_read(session.world, obj, name)
        if value is ABSENT:
            raise instances.no_attribute(obj, name)
        return value
    if is_plain_read(cls):
        return _core.read(obj, name)
    if is_leaf(obj) and not _core.is_python_class(cls):
        return _core.natively(object.__getattribute__, (obj, name), None)
    if _core.is_python_class(cls) and not is_a(obj, (type, torch.Tensor)):
        return _generic_read_inside(session, obj, name)
    raise Interrupt("callable-on-handle", "object.__getattribute__")


#: the native core answers the usual reads of handles itself
_core.connect(generic_getter=object.__getattribute__, generic_handler=SUBSTITUTES[id(object.__getattribute__)][1])


def _known(obj: Any, name: str) -> None:
    """Interrupt where a stand-in's own attributes are not those of the object it stands for."""
    if type(obj) is Opaque:
        raise refused(obj)
    # whose attributes `object` does not know
    if type(obj) in (Array, Scalar, NumpyNumber) or is_a(obj, _thread._local):
        raise Interrupt("callable-on-handle", name)


def is_plain_read(cls: type) -> bool:
    """Return whether a dot does what `object.__getattribute__` does for instances of a class."""
    lookup = _core.type_lookup
    return lookup(cls, "__getattribute__", None) is object.__getattribute__ and lookup(cls, "__getattr__", None) is None


def _generic_read_inside(session: Session, obj: Any, name: str) -> Any:
    """An instance made inside: what its class holds is external, and guarded."""
    session.note_class(type(obj))
    answer, found = class_entry(session.world, type(obj), name)
    if answer != instances.INSTANCE:
        return _core.natively(object.__getattribute__, (obj, name), None)
    own = _core.natively(object.__getattribute__, (obj, "__dict__"), None) if dictoffset_of(type(obj)) else {}
    return own.get(name, found)


@substitute(types.ModuleType.__getattribute__)
def _module_getattribute(session: Session, module: Any, name: Any, /) -> Any:
    """Read an attribute of a plain module, its own `__getattr__` included."""
    if type(module) is not types.ModuleType or not is_a(name, str):
        raise Interrupt("callable-on-handle", "module.__getattribute__")
    return _core.read(module, name)


@substitute(object.__setattr__, types.ModuleType.__setattr__)
def _object_setattr(session: Session, callable_: Any, obj: Any, name: Any, value: Any, /) -> Any:
    _known(obj, "object.__setattr__")
    if issubclass(type(obj), torch.Tensor):
        return tensor_attributes.generic_store(session, obj, _interned(name), value)
    if _core.is_external(obj) or is_a(obj, types.ModuleType):
        return instances.generic_write(session.world, obj, _interned(name), value)
    if (
        not _core.is_internal(obj)
        and not is_a(obj, type)
        and _core.type_lookup(type(obj), "__setattr__", None) is object.__setattr__
    ):
        return _core.natively(_STORE, (value, obj, _interned(name)), None)
    return _core.natively(callable_, (obj, name, value), None)


@substitute(object.__delattr__, types.ModuleType.__delattr__)
def _object_delattr(session: Session, callable_: Any, obj: Any, name: Any, /) -> Any:
    _known(obj, "object.__delattr__")
    if issubclass(type(obj), torch.Tensor):
        return tensor_attributes.generic_delete(session, obj, _interned(name))
    if _core.is_external(obj) or is_a(obj, types.ModuleType):
        return instances.generic_delete(session.world, obj, _interned(name))
    if (
        not _core.is_internal(obj)
        and not is_a(obj, type)
        and _core.type_lookup(type(obj), "__delattr__", None) is object.__delattr__
    ):
        return _core.natively(_DELETE, (obj, _interned(name)), None)
    return _core.natively(callable_, (obj, name), None)


@substitute(type.__setattr__)
def _type_setattr(session: Session, cls: Any, name: Any, value: Any, /) -> Any:
    if not is_a(cls, type):
        return type.__setattr__(cls, name, value)  # raises
    return generic_write_class(session.world, cls, _interned(name), value)


@substitute(type.__getattribute__)
def _type_getattribute(session: Session, cls: Any, name: Any, /) -> Any:
    """`super().__getattribute__(name)` of a metaclass."""
    if not is_a(cls, type) or not is_a(name, str):
        return _core.natively(type.__getattribute__, (cls, name), None)
    return generic_read_class(session.world, cls, _interned(name))


@substitute(type)
def _type(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        raise makes_class(type)
    (obj,) = args
    if issubclass(type(obj), View):
        return obj.builtin_type
    if type(obj) is types.MethodType and issubclass(type(obj.__self__), (View, Array)):
        return types.BuiltinFunctionType  # outside, a method of C code
    if is_a(obj, (type, types.ModuleType)):
        session.note_kind(obj)
    if type(obj) in (Opaque, Array, Scalar, NumpyNumber) or type(obj) in NUMBERS:
        return obj.__class__
    return type(obj)


@substitute(vars)
def _vars(session: Session, obj: Any = ABSENT, /) -> Any:
    if obj is ABSENT:
        return frame_locals(session, caller())
    try:
        return _core.read(obj, "__dict__")
    except AttributeError:
        raise TypeError("vars() argument must have __dict__ attribute") from None


@substitute(builtins.__import__)
def _import(
    session: Session, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    return session.import_name(globals or {}, level, fromlist, name)


@substitute(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, utils_is_compiling)
def _compiling(session: Session) -> bool:
    return session.policy.fullgraph or source_of(caller().f_code) is not _OTHER_RESULT


#: torch's one function that computes something else when it is compiled: a nested tensor sets padding to zero, or there
#: is no nested tensor.  Only who asks for one graph gets that.
_OTHER_RESULT = torch.nn.TransformerEncoder.forward.__code__


@substitute(torch.compiler.is_exporting)
def _exporting(session: Session) -> bool:
    return session.policy.exporting


@substitute(torch.jit.is_tracing, *FX_TRACING_READS)
def _not_here(session: Session) -> bool:
    return False

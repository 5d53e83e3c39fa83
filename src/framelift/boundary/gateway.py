"""The import gateway: external value + origin -> what captured code may see, plus guards.

`let_in` is the only way in.  Rules are found by exact type first (import_rules.py: `RULES`), then by the order of
`_by_kind`.  A new known type is one function under `@rule`.
"""

from __future__ import annotations

import _thread
import contextvars
import datetime
import enum
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Set
from typing import Any

import torch

from .. import _core
from .._core import id, is_a
from ..bytecode.resume import untouched
from ..graph.metadata.wrapper_guards import sizes_hold
from ..graph.metadata.wrappers import context_of, inner_tensors, is_wrapper
from ..guards.kinds import PLAIN_TENSORS, tensor_facts, without_entries
from ..torch_ports.autograd import FunctionBase
from ..torch_ports.modes import DisableTorchFunction
from ..torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..torch_ports.tensors import VariableFunctions
from ..vocabulary.class_reads import for_life, members_of, module_of, mro_of, qualname_of
from ..vocabulary.origins import Origin, const
from ..vocabulary.reasons import Interrupt
from ..vocabulary.torch_code import is_class_of
from .becomes import copied_objects  # noqa: F401  (adds its rows to the kinds of shadows)
from .becomes.containers import MAPPING_VIEWS, import_container, import_view, is_container
from .becomes.immutable_objects import carried_values, import_value, plain_value, value_kind
from .becomes.leaves import CONSTANT_TYPES, LEAF_TYPES, holds_nan, is_constant, is_leaf
from .becomes.opaque import Opaque, unread_object
from .dynamism import is_argument
from .facts.unwatched_reads import note_wrapper_class
from .import_rules import BASE_RULES, RULES, constant, frozen, leaf, let_in_opaque, nan, number, rule, with_attributes
from .world import World

_mro, _own, _flags = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__flags__"))
_HEAP_TYPE = 1 << 9


def let_in(world: World, value: Any, origin: Origin) -> Any:
    """Import the external `value` found at `origin`, and return what captured code sees for it."""
    known = world.memo.get(id(value))
    if known is not None:
        if known.origin != origin:
            world.guard(origin, "SAME", known.origin)
        return known.seen
    cls = type(value)
    # as `has_plain_class`
    if not _core.is_plain_class(cls) or is_a(value, type) and not _core.is_plain_class(value):
        return _class(world, value, origin) if is_a(value, type) else let_in_opaque(world, value, origin)
    found = RULES.get(cls)
    if found is not None:
        return found(world, value, origin)
    return _by_kind(world, value, origin)


def has_plain_class(value: Any) -> bool:
    """Return whether its class, and a class itself, can be looked up in tables without running code of a metaclass."""
    return _core.is_plain_class(type(value)) and (not is_a(value, type) or _core.is_plain_class(value))


def looked_at(world: World, value: Any) -> Any:
    """Import the value of a frame's local variable that captured code did not read, but sees in other ways."""
    record = world.parts.handed.get(id(value))
    return value if record is None else let_in(world, record.original, record.origin)


def _class(world: World, value: type, origin: Origin) -> Any:
    """A class as C code reads it unseen: for special methods, to make an exception of it, or a tensor."""
    world.guard(origin, "IS", value)
    if _flags(type(value)) & _HEAP_TYPE:
        world.guard(origin, "TYPE", type(value))  # `cls.__class__` may be assigned
        world.classes.note_class(type(value))
    if issubclass(value, torch.Tensor) or issubclass(value, BaseException) and _core.is_python_class(value):
        world.classes.note_class(value)
    return value


for _cls in LEAF_TYPES:
    RULES[_cls] = leaf
RULES[int] = RULES[float] = number
RULES[complex] = lambda world, value, origin: (leaf if value == value else nan)(world, value, origin)
for _cls in CONSTANT_TYPES:
    RULES[_cls] = constant
RULES[re.Pattern] = constant


@rule(types.CodeType)
def _code(world: World, value: types.CodeType, origin: Origin) -> types.CodeType:
    """Code tells where it is written."""
    world.shows_places = True
    constant(world, value, origin)
    return value


RULES[type] = _class


@rule(*{type(value) for value in vars(sys).values() if is_a(value, tuple) and hasattr(type(value), "n_fields")})
def _said_by_interpreter(world: World, value: Any, origin: Origin) -> Any:
    """Import constants of the interpreter (sys.flags, sys.float_info): numbers and texts with names."""
    world.guard(origin, "IS", value)
    return world.register(value, value, origin, mutable=False)


@rule(types.TracebackType)
def _traceback(world: World, value: types.TracebackType, origin: Origin) -> Any:
    """A traceback of frames outside: captured code may hold and compare it, not look into it."""
    world.guard(origin, "TYPE", types.TracebackType)
    _core.mark_external(value)
    return world.register(value, value, origin)


def _function(world: World, value: types.FunctionType, origin: Origin) -> Any:
    """A function is a constant; where others of its code are found in its place, only the code is one."""
    if not world.dynamism.functions:
        return constant(world, value, origin)
    constants = world.functions.constants_of(value)
    if (
        id(value) in constants
        or None in constants.values()
        or not world.dynamism.by_code(value, origin)
        or not world.guard_handling(world, value, origin)
    ):
        return constant(world, value, origin)
    world.guard(origin, "TYPE", types.FunctionType)
    world.guard(origin, "CODE", value.__code__)
    world.guard(origin.to("globals"), "IS", value.__globals__)
    world.guard(origin.to("dict"), "KEYS", tuple(value.__dict__))
    world.functions.guard_by_code(value, origin)
    return world.register(value, value, origin)


RULES[types.FunctionType] = _function
_VARIABLE_FUNCTIONS = type(VariableFunctions)
RULES[_VARIABLE_FUNCTIONS] = constant
RULES[_core.Compiled] = with_attributes
RULES[torch.jit.ScriptFunction] = with_attributes


#: classes written in C whose instances hold nothing; Generic is one of them since CPython 3.12
_EMPTY_BASES = (object, _thread._local, typing.Generic)


@for_life
def is_handle_class(cls: type) -> bool:
    """Return whether instances of `cls` hold only what Python code put there: all bases but object are Python
    classes.
    """
    return all(base in _EMPTY_BASES or _core.is_python_class(base) for base in _mro(cls))


def _by_kind(world: World, value: Any, origin: Origin) -> Any:
    cls = type(value)
    if is_a(value, torch.Tensor):
        return _tensor(world, value, origin)
    if is_a(value, enum.Enum):
        return _member(world, value, origin)
    if is_container(cls):
        return import_container(world, value, origin, let_in)
    if is_constant(value):
        return _class(world, value, origin) if issubclass(cls, type) else constant(world, value, origin)
    if is_a(value, _OPERATIONS):
        return constant(world, value, origin)
    of_base = next((BASE_RULES[base] for base in _mro(cls) if base in BASE_RULES), None)
    if of_base is not None:
        return of_base(world, value, origin)
    if _is_kernel_class(cls):
        return _singleton(world, value, origin)
    if is_handle_class(cls) or issubclass(cls, FunctionBase):
        return _handle(world, value, origin)
    kind = value_kind(cls)
    if kind is not None and all(
        base is kind or base in _EMPTY_BASES or _core.is_python_class(base) for base in _mro(cls)
    ):
        plain_value(world, value, kind, origin)
        return _handle(world, value, origin)
    if issubclass(cls, BaseException):  # a placeholder could be raised natively, and that would be another exception
        raise Interrupt("opaque-object", f"{module_of(cls)}.{qualname_of(cls)}")
    return let_in_opaque(world, value, origin)


_OPERATIONS = (OpOverload, OpOverloadPacket, HigherOrderOperator)


_MAPPING = 1 << 6  # the flag of classes that mapping patterns match


def _handle(world: World, value: Any, origin: Origin) -> Any:
    cls = type(value)
    if not world.classes.note_if_watched(cls):
        return let_in_opaque(world, value, origin)
    world.guard(origin, "TYPE", cls)
    if _flags(cls) & _MAPPING and _core.own_dict(value) is not None:  # a mapping pattern asks it for `get` from C
        if "get" in _core.own_dict(value):
            return let_in_opaque(world, value, origin)
        world.guard(origin.to("dict"), "ABSENT", "get", "get")
    _core.mark_external(value)
    world.register(value, value, origin)
    world.owners.met(value, origin)
    return value


def _is_kernel_class(cls: type) -> bool:
    """Return whether a class is one of Triton's for kernels, once the program has Triton."""
    interface = getattr(sys.modules.get("triton.runtime.jit"), "KernelInterface", None)
    return interface is not None and interface in _mro(cls) and is_class_of(cls, "triton.runtime")


def _member(world: World, value: enum.Enum, origin: Origin) -> Any:
    """A member of an enumeration.  C code reads what its data type carries, which identity alone tells: for good."""
    if carried_values(value) is None:
        return let_in_opaque(world, value, origin)
    return _singleton(world, value, origin)


def _singleton(world: World, value: Any, origin: Origin) -> Any:
    """Objects that exist once (enum members): identity is guarded, attributes are read as a handle's."""
    if not world.classes.note_if_watched(type(value)):  # C code finds their operators there
        return let_in_opaque(world, value, origin)
    world.guard(origin, "IS", value)
    _core.mark_external(value)
    return world.register(value, value, const(value), mutable=False)


def _tensor(world: World, value: torch.Tensor, origin: Origin) -> Any:
    cls = type(value)
    if not world.classes.note_if_watched(cls):  # C code finds operators and `__torch_function__` there
        return let_in_opaque(world, value, origin)
    if is_wrapper(cls):
        return _wrapper(world, value, origin)
    dims, marks = world.dynamism.dims(value, origin)
    try:
        symbolic = bool(dims or marks.strides)
        seen = world.tensors.stand_in(value, str(origin), dims, marks) if symbolic else world.tensors.stand_in(value)
    except Interrupt as interrupt:  # a kind of tensor we do not capture: it may still be passed around
        if interrupt.reason.id == "symbolic-number":
            raise
        return let_in_opaque(world, value, origin, interrupt.reason.id, interrupt.detail)
    facts = tensor_facts(value, ask_marks=type(value) is not torch.nn.Parameter and is_argument(origin))
    world.guard(origin, "TENSOR", without_entries(facts, *world.tensors.symbolic_entries(value)) if symbolic else facts)
    if _core.own_dict(value).get("_dynamo_static_input_type") == "guarded":  # compilers rely on its address
        world.guard(origin, "IS", value)
    if cls in PLAIN_TENSORS:
        _core.mark_tensor(seen)
    return world.register(value, seen, origin)


def _wrapper(world: World, value: Any, origin: Origin) -> Any:
    """A tensor that holds others: these are let in at their own places, and it is guarded to be made of them."""
    kind = type(value)
    world.guard(origin, "TYPE", kind)
    try:
        with DisableTorchFunction():
            names, context = context_of(value)
            inner = inner_tensors(value, names)
            own = _core.own_dict(value)
        for name, tensor in inner.items():
            place = origin.to("dict").to("item", name) if own.get(name) is tensor else origin.to("attr", name)
            if is_a(let_in(world, tensor, place), Opaque):
                raise Interrupt(
                    "tensor-subclass", f"{module_of(kind)}.{qualname_of(kind)}, whose {name} is not captured,"
                )
        seen = world.tensors.stand_in(value, str(origin))
    except Interrupt as interrupt:  # it may still be passed around
        if interrupt.reason.id == "symbolic-number":
            raise
        return let_in_opaque(world, value, origin, interrupt.reason.id, interrupt.detail)
    note_wrapper_class(world, kind)
    with DisableTorchFunction():
        holds = sizes_hold(value, names, context, *world.tensors.symbolic_entries(value))
    world.guard(origin, "CHECK", (holds, f"is a {qualname_of(kind)} of the same context and sizes"), "wrapper")
    return world.register(value, seen, origin)


@rule(tuple)
def _tuple(world: World, value: tuple[Any, ...], origin: Origin) -> Any:
    if is_leaf(value) and not world.dynamism.inside(value, origin) and not holds_nan(value):
        return frozen(world, value, origin)
    world.guard(origin, "TYPE", tuple)
    world.guard(origin, "LEN", len(value))
    seen = tuple([let_in(world, item, origin.to("item", i)) for i, item in enumerate(value)])
    if all(a is b for a, b in zip(seen, value)):
        seen = value
    return world.register(value, seen, origin, mutable=False)


@rule(torch.Size)
def _size(world: World, value: torch.Size, origin: Origin) -> Any:
    if not world.dynamism.inside(value, origin):
        return leaf(world, value, origin)
    world.guard(origin, "TYPE", torch.Size)
    world.guard(origin, "LEN", len(value))
    return world.register(
        value,
        torch.Size([let_in(world, item, origin.to("item", i)) for i, item in enumerate(value)]),
        origin,
        mutable=False,
    )


@rule(slice)
def _slice(world: World, value: slice, origin: Origin) -> Any:
    if is_leaf(value) and not world.dynamism.inside_slice(value, origin):
        return leaf(world, value, origin)
    world.guard(origin, "TYPE", slice)
    parts = [let_in(world, getattr(value, name), origin.to("attr", name)) for name in ("start", "stop", "step")]
    return world.register(value, slice(*parts), origin, mutable=False)


@rule(frozenset)
def _frozenset(world: World, value: frozenset[Any], origin: Origin) -> Any:
    if is_leaf(value) and not holds_nan(value):
        return frozen(world, value, origin)
    return import_container(world, value, origin, let_in)


@rule(types.MethodType)
def _method(world: World, value: types.MethodType, origin: Origin) -> Any:
    world.guard(origin, "TYPE", types.MethodType)
    function = let_in(world, value.__func__, origin.to("func"))
    let_in_receiver = _unread_receiver if _ignores_receiver(world, function) else let_in
    receiver = let_in_receiver(world, value.__self__, origin.to("self"))
    return world.register(value, types.MethodType(function, receiver), origin, mutable=False)


def _ignores_receiver(world: World, function: Any) -> bool:
    """Return whether a function that is another at each call, and its class, never looks at what it is bound to."""
    if world.functions.read_receivers is None or id(function) not in world.functions.origins:
        return False
    code = function.__code__
    return code.co_argcount > 0 and code.co_varnames[0] in untouched(code)


def entries_of_tuple(world: World, value: tuple[Any, ...], origin: Origin, wanted: Set[int]) -> tuple[Any, ...]:
    """A tuple of which captured code reads the entries `wanted` alone, by this path: all others are handed on."""
    world.guard(origin, "TYPE", tuple)
    world.guard(origin, "LEN", len(value))
    numbers = {number % len(value) for number in wanted if -len(value) <= number < len(value)}
    items = [
        let_in(world, item, origin.to("item", i)) if i in numbers else world.handed_on(item, origin.to("item", i))
        for i, item in enumerate(value)
    ]
    made: tuple[Any, ...] = world.read_in_part(value, tuple(items), origin)
    return made


def _unread_receiver(world: World, value: Any, origin: Origin) -> Any:
    """Only its identity is known and guarded.  Where something looks at it, the next rehearsal imports it."""
    if id(value) in world.memo:
        return let_in(world, value, origin)
    return world.register(value, unread_object("a method's __self__", world.functions.read_receivers), origin)


@rule(types.BuiltinFunctionType)
def _builtin(world: World, value: types.BuiltinFunctionType, origin: Origin) -> Any:
    """A C function is itself.  A bound C method holds an object, which is imported; the method is bound to that."""
    owner = value.__self__
    if owner is None or is_a(owner, (types.ModuleType, type)):
        return constant(world, value, origin)
    if type(owner) is _VARIABLE_FUNCTIONS:
        return constant(world, value, origin)
    found = next(
        (members_of(base)[value.__name__] for base in mro_of(type(owner)) if value.__name__ in members_of(base)), None
    )
    if found is None:  # a function that carries a record of its own, as pybind11 makes them
        return constant(world, value, origin)
    receiver = let_in(world, owner, origin.to("self"))
    if receiver is owner:
        return constant(world, value, origin)
    # A view's method is Python code, and C code that is given it (text, isinstance) would see that.
    if (
        type(receiver) is not type(owner)
        or type(found) is not types.MethodDescriptorType
        or found.__get__(owner, type(owner)) != value
    ):
        return let_in_opaque(world, value, origin)
    world.guard(origin, "TYPE", types.BuiltinFunctionType)
    world.guard(origin.to("attr", "__name__"), "EQ", value.__name__)
    return world.register(value, found.__get__(receiver, type(receiver)), origin, mutable=False)


def fact_of(world: World, seen: Any, function: Callable[[Any], Any]) -> Any:
    """Call a function on an external object, and import its result like any value."""
    record = world.by_seen[id(seen)]
    return let_in(world, function(record.original), record.origin.to("ask", function))


@rule(contextvars.ContextVar)
def _context_variable(world: World, value: Any, origin: Origin) -> Any:
    return _singleton(world, value, origin)


@rule(
    datetime.date,
    datetime.timedelta,
    datetime.timezone,
    datetime.datetime,
    datetime.time,
    operator.attrgetter,
    operator.itemgetter,
    operator.methodcaller,
    re.Match,
)
def _described(world: World, value: Any, origin: Origin) -> Any:
    seen = import_value(world, value, origin)
    return let_in_opaque(world, value, origin) if seen is None else seen


@rule(*MAPPING_VIEWS)
def _view(world: World, value: Any, origin: Origin) -> Any:
    seen = import_view(world, value, origin, let_in)
    return let_in_opaque(world, value, origin) if seen is None else seen


@rule(types.MethodWrapperType)
def _slot_method(world: World, value: Any, origin: Origin) -> Any:
    """A slot bound to an object (`(3).__add__`): the same slot of what the object becomes."""
    world.guard(origin, "TYPE", types.MethodWrapperType)
    world.guard(origin.to("attr", "__name__"), "EQ", value.__name__)
    inside = let_in(world, value.__self__, origin.to("self"))
    return getattr(inside, value.__name__)

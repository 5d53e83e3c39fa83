"""The call rule's tables read in order: what a C callable, class or callable instance is.

The answers are the rows of `Kind` in csrc/calls.cpp.  The core remembers them per callable.
"""

from __future__ import annotations

import array
import builtins
import io
import re
import struct
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._core import id, is_a
from ..autograd import autograd_function
from ..boundary.attributes.owners import own_dict
from ..boundary.becomes.opaque import handler_of
from ..boundary.gateway import is_handle_class, let_in
from ..boundary.lazy.view import View
from ..calls.call_tables import HIGHER_ORDER, PURE, SUBSTITUTES
from ..calls.pure import lookup
from ..graph.symbols.numbers import NUMBERS
from ..guards.kinds import full_name
from ..higher_order import operators
from ..overriding import subclasses
from ..overriding.modes import torch_call
from ..recording import wrapper_results
from ..recording.rules.operations import is_torch_operation
from ..recording.session import Session
from ..substitutes import marks
from ..substitutes.python.code_objects import makes_class
from ..substitutes.python.lazy_containers import natively
from ..substitutes.python.shown_addresses import cuts_text, format_watched, known_text
from ..substitutes.torch.scripted import call_scripted
from ..torch_ports.operators import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..torch_ports.tensors import VariableFunctions
from ..vocabulary.class_reads import for_life, mro_of, qualname_of
from ..vocabulary.origins import const
from ..vocabulary.reasons import Interrupt
from . import registered  # noqa: F401  (fills these tables)

PURE_, ON_INTERNALS, HANDLER, DENIED, HIGHER, BOUND, UNWRAP, NATIVE = range(1, 9)
_BY_TYPE = 0  # the row answers with kind and payload

OPERATIONS: tuple[type, ...] = (OpOverload, OpOverloadPacket, HigherOrderOperator)
#: files, which are made by `open` alone
_FILES = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
#: C types that may stand in a `with` statement
KNOWN_CONTEXTS: frozenset[type] = frozenset(
    {*(type(threading.Lock()), type(threading.RLock())), *(io.StringIO, io.BytesIO, *_FILES)}
)
#: their finalisers close what nobody else has
_HARMLESS_FINALISERS = frozenset({io.StringIO, io.BytesIO})
_VARIABLE_FUNCTIONS = type(VariableFunctions)


def finalised(cls: type) -> str:
    return f"{describe(cls)} (its finaliser would run outside the rehearsal)"


def describe(callable_: Any) -> str:
    """The callable's name for a message."""
    if is_a(callable_, type) or _core.is_python_class(type(callable_)):  # read without code of the program
        cls = callable_ if is_a(callable_, type) else type(callable_)
        return full_name(cls).removeprefix("builtins.")
    name = (
        getattr(callable_, "__qualname__", None) or getattr(callable_, "__name__", None) or qualname_of(type(callable_))
    )
    owner = getattr(callable_, "__module__", None)
    return f"{owner}.{name}" if owner and owner != "builtins" else str(name)


def classify(callable_: Any) -> tuple[int, Any]:
    """(kind, payload) for a callable that is no Python function or method."""
    if is_a(callable_, type) and not _core.is_plain_class(callable_):
        return DENIED, f"{describe(callable_)} (its metaclass compares or hashes classes by code of its own)"
    marked = marks.handler_of(callable_)
    if marked is not None:
        return HANDLER, marked
    found = SUBSTITUTES.get(id(callable_))
    if found is not None:
        return HANDLER, found[1]
    if type(callable_) is types.MethodWrapperType:
        return UNWRAP, True  # a new object at each read, so none of the tables knows it
    for kind, decide in _ORDER:
        payload = decide(callable_)
        if payload is not None:
            return payload if kind is _BY_TYPE else (kind, payload)
    return _declared_word(callable_)


@for_life
def _calls_in_python(cls: type) -> bool:
    """Return whether the `__call__` of a class, and the instance itself, decide alone what a call of an instance
    does.
    """
    return is_handle_class(cls) and not issubclass(cls, OPERATIONS) and not issubclass(cls, operators.OPERATOR)


def _plain_instance(callable_: Any) -> Any:
    """Answer for most instances of Python classes at once, as the rows below would."""
    cls = type(callable_)
    if not _calls_in_python(cls):
        return None
    method, number = _core.type_lookup(cls, "__call__", None), id(callable_)
    if type(method) is not types.FunctionType or id(method) in SUBSTITUTES or "_call" in (own_dict(callable_) or ()):
        return None
    listed = number in HIGHER_ORDER or number in PURE or number in lookup.WORDS or is_torch_operation(callable_)
    return None if listed else True


def _bound_tensor_method(callable_: Any) -> Any:
    if is_a(callable_, types.BuiltinMethodType) and is_a(callable_.__self__, torch.Tensor):
        return torch_call, getattr(torch.Tensor, callable_.__name__)
    return None


def _bound_substitute(callable_: Any) -> Any:
    if is_a(callable_, types.BuiltinMethodType):
        function, held = lookup.resolve(callable_)
        if held and id(function) in SUBSTITUTES:
            return SUBSTITUTES[id(function)][1], function
    return None


def _operation(callable_: Any) -> Any:
    if is_a(callable_, operators.OPERATOR):
        return operators.call_operator
    if is_a(callable_, OPERATIONS) or is_torch_operation(callable_):
        return torch_call
    if is_a(callable_, torch.jit.ScriptFunction):
        return call_scripted
    if is_a(callable_, types.BuiltinMethodType) and type(callable_.__self__) is _VARIABLE_FUNCTIONS:
        return torch_call  # a new object at each read, so not in any table by identity
    return None


def is_in_graph(callable_: Any) -> bool:
    """Return whether a call of it is one node of a graph without any mark."""
    return _operation(callable_) is not None


def _caller_substitute(callable_: Any) -> Any:
    """An instance of a C type whose `__call__` has a substitute (operator.attrgetter …)."""
    if is_a(callable_, type):
        return None
    function, held = lookup.resolve(callable_)
    if len(held) != 1 or held[0] is not callable_ or id(function) not in SUBSTITUTES:
        return None
    handler = SUBSTITUTES[id(function)][1]
    return lambda session, instance, args, kwargs: handler(session, function, (instance, *args), kwargs)


def _wrapper(callable_: Any) -> Any:
    if is_a(callable_, _core.Compiled):
        return True
    if is_a(_core.type_lookup(type(callable_), "__call__", None), _core.Compiled):
        return True  # an instance of a class that was compiled in place
    return (
        True
        if is_a(callable_, torch.nn.Module)
        and "_call" in (own := _core.own_dict(callable_))
        and "_orig_mod" in own.get("_modules", ())
        else None
    )


#: by C type: the answer for an instance of it or of a subclass, where it is called as the type itself defines it
CALLED: dict[type, Callable[[Any], tuple[int, Any]]] = {}
#: by C type: the callable inside of an instance, and all its arguments
UNWRAPPED: dict[
    type, Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, tuple[Any, ...], dict[str, Any]]]
] = {}


def _by_its_type(callable_: Any) -> Any:
    for cls in mro_of(type(callable_)):
        if cls in CALLED:
            return CALLED[cls](callable_) if lookup.resolve(callable_)[0] is lookup.member(cls, "__call__") else None
    return None


def _in(table: dict[int, Any]) -> Any:
    return lambda callable_: True if id(callable_) in table else None


def _python_instance(callable_: Any) -> Any:
    if not callable(callable_):
        return True  # the call raises, in CPython's own words
    method = lookup.member(type(callable_), "__call__")
    return True if _core.is_python_class(type(callable_)) and is_a(method, types.FunctionType) else None


def _calls_its_class_attribute(callable_: Any) -> Any:
    """The class of a callable holds something else than a function under `__call__`: that is called instead."""
    method = lookup.member(type(callable_), "__call__")
    not_a_function = (
        method is not None
        and not lookup.is_c_callable(method)
        and type(method) not in (types.FunctionType, classmethod, staticmethod)
    )
    if not_a_function and (type(method) is property or _core.type_lookup(type(method), "__get__", None) is None):
        return True
    return None


def _metaclass(callable_: Any) -> Any:
    """A metaclass called by its name makes a class, as `type` does."""
    return _makes_class if is_a(callable_, type) and issubclass(callable_, type) else None


def _makes_class(session: Session, meta: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise makes_class(meta)


def _declared_word(callable_: Any) -> tuple[int, Any]:
    if (
        is_a(callable_, type)
        and _core.type_lookup(callable_, "__del__", None) is not None
        and callable_ not in _HARMLESS_FINALISERS
    ):
        return DENIED, finalised(callable_)
    word = lookup.verdict(callable_)
    if word in _BY_WORD:
        return _BY_WORD[word]
    return (
        DENIED,
        f"{describe(callable_)} ({lookup.reason(word) if word else 'a C function that may have side effects'})",
    )


def _judged(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments decide: ask the judge, then call natively as its word allows."""
    word = lookup.verdict(callable_, args, kwargs)
    known, held = lookup.resolve(callable_)
    if word == "text":
        return _text(session, callable_, args, kwargs)
    if word == "attributes" and known is str.format:
        return format_watched((*held, *args), kwargs)
    if word not in _BY_WORD or word == "judged":
        raise Interrupt("unknown-callable", f"{describe(callable_)} ({lookup.reason(word)})")
    if word != "pure" and any(_core.is_external(x) for x in (*held, *args, *kwargs.values())):
        raise Interrupt("callable-on-handle", describe(callable_))
    return natively(callable_, args, kwargs)


def _text(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A text must not show where an object lies in memory: that would be another text at the next call."""
    if any(_core.is_external(x) and not _has_python_text(x) for x in (*args, *kwargs.values())):
        raise Interrupt("callable-on-handle", describe(callable_))
    # their own text of a number, which they know by its memory
    if getattr(callable_, "__objclass__", None) in (int, float):
        args = tuple([arg.value() if type(arg) in NUMBERS else arg for arg in args])
    # of C code, outside
    if any(type(x) is types.MethodType and issubclass(type(x.__self__), View) for x in (*args, *kwargs.values())):
        raise Interrupt("callable-on-handle", describe(callable_))
    function, held = lookup.resolve(callable_)
    template = (*held, *args)[:1]
    if function in (str.format, str.format_map) and any(is_a(one, str) and cuts_text(one) for one in template):
        raise Interrupt("unknown-callable", "the text of an object that is cut")
    result = _core.natively(callable_, args, kwargs)
    if is_a(result, str) or _core.shows_address(result):
        return known_text(session, result, f"{describe(callable_)} (the text")
    return result


def _has_python_text(value: Any) -> bool:
    return any(
        is_a(_core.type_lookup(type(value), name, None), types.FunctionType)
        for name in ("__repr__", "__str__", "__format__")
    )


_BY_WORD: dict[str, tuple[int, Any]] = {
    "pure": (PURE_, True),
    "internals": (ON_INTERNALS, True),
    "text": (HANDLER, _text),
    "judged": (HANDLER, _judged),
}

#: whose methods look into the memory of what they are given: a placeholder has none, so the call rule looks at their
#: arguments
_LOOK_INTO_MEMORY = (bytes, bytearray, array.array, io.BytesIO, *_FILES, re.Pattern, struct.Struct)


def connect_tables() -> None:
    """Give the core what the tables say now: again where more was added to them."""
    safe = [kind for kind in lookup.safe_self_types() if kind not in _LOOK_INTO_MEMORY]
    rows = (*lookup.WORDS.values(), *SUBSTITUTES.values())
    special = [c for c, word in rows if word != "pure" and getattr(c, "__objclass__", None) in safe]
    _core.connect(safe_receivers=safe, special_methods=tuple(special))


connect_tables()
_core.connect(
    unordered=(
        len,
        bool,
        isinstance,
        issubclass,
        callable,
        set,
        frozenset,
        any,
        all,
        hash,
        builtins.id,
        type,
        getattr,
        hasattr,
        setattr,
    ),
    sorting=(sorted, min, max, any, all),
)

#: read from the top; the first that answers decides; else the tables' word does
_ORDER: tuple[tuple[int, Any], ...] = (
    (HANDLER, handler_of),
    (NATIVE, _plain_instance),
    (BOUND, _bound_tensor_method),
    (BOUND, _bound_substitute),
    (HANDLER, _operation),
    (_BY_TYPE, _by_its_type),
    (UNWRAP, _wrapper),
    (HANDLER, _caller_substitute),
    (HANDLER, autograd_function.bound_apply),
    (HANDLER, autograd_function.is_function_class),
    (NATIVE, subclasses.is_tensor_class),
    (HANDLER, subclasses.is_made_of_tensors),
    (HANDLER, wrapper_results.make_wrapper),
    (UNWRAP, _calls_its_class_attribute),
    (HANDLER, _metaclass),
    (HIGHER, _in(HIGHER_ORDER)),
    (PURE_, _in(PURE)),
    (NATIVE, _python_instance),
)


def unwrap(
    session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The callable inside a wrapper, with its arguments: the call rule starts again with it."""
    if type(callable_) is types.MethodWrapperType:
        return getattr(callable_.__objclass__, callable_.__name__), (callable_.__self__, *args), kwargs
    for cls in mro_of(type(callable_)):
        if cls in UNWRAPPED:
            return UNWRAPPED[cls](callable_, args, kwargs)
    if is_a(callable_, _core.Compiled):  # compiled inside compiled: captured as what it was made of
        inside = _core.is_internal(callable_)
        if callable_.receiver is not None:
            return (
                callable_.receiver
                if inside
                else let_in(session.world, callable_.receiver, const(callable_).to("attr", "receiver")),
                args,
                kwargs,
            )
        bound = (
            callable_.bound if inside else let_in(session.world, callable_.bound, const(callable_).to("attr", "bound"))
        )
        return callable_.function, bound + args, kwargs
    if _calls_its_class_attribute(callable_):
        method = session.lookup(type(callable_), "__call__")
        if type(method) is property:
            return _core.captured(method.fget, (callable_,), None), args, kwargs
        if not session.world.classes.is_pending(type(callable_), "__call__"):
            method = let_in(session.world, method, const(type(callable_)).to("lookup", "__call__"))
        return method, args, kwargs
    method = getattr(type(callable_), "__call__", None)  # noqa: B004  (the method itself is wanted)
    if is_a(method, _core.Compiled):
        return method.function, (*method.bound, callable_, *args), kwargs
    inside = _core.read(callable_, "_call")
    return inside if not is_a(inside, _core.Compiled) else _core.read(callable_, "_orig_mod"), args, kwargs

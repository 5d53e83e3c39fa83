"""The call rule's tables read in order: what a C callable, class or callable instance is (design, section 6).

The answers are the rows of `Kind` in csrc/calls.cpp.  The core remembers them per callable.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from .. import _core
from . import pure, substitutes, torch_rules  # noqa: F401  (they fill the tables)
from .recorder import is_torch_operation
from .registry import HIGHER_ORDER, PURE, PURE_ON_INTERNALS, SUBSTITUTES

__all__ = ["KNOWN_CONTEXTS", "OPERATIONS", "classify", "describe", "unwrap"]

PURE_, ON_INTERNALS, HANDLER, DENIED, HIGHER, BOUND, UNWRAP, NATIVE = range(1, 9)

OPERATIONS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)
#: C types that may stand in a `with` statement
KNOWN_CONTEXTS: frozenset[type] = frozenset()
#: C types that Python classes may derive from and still be constructed natively
_BASES = (object, list, dict, tuple, set, frozenset, int, float, str, bytes, bytearray, complex, type, BaseException)
_WRAPPERS = (types.MethodWrapperType, functools.partial, functools._lru_cache_wrapper)


def describe(callable_: Any) -> str:
    """The callable's name for a message."""
    name = getattr(callable_, "__qualname__", None) or getattr(callable_, "__name__", None) or type(callable_).__qualname__
    owner = getattr(callable_, "__module__", None)
    return f"{owner}.{name}" if owner and owner != "builtins" else str(name)


def classify(callable_: Any) -> tuple[int, Any]:
    """(kind, payload) for a callable that is no Python function or method."""
    found = SUBSTITUTES.get(id(callable_))
    if found is not None:
        return HANDLER, found[1]
    for kind, decide in _ORDER:
        payload = decide(callable_)
        if payload is not None:
            return kind, payload
    return DENIED, describe(callable_)


def _bound_tensor_method(callable_: Any) -> Any:
    if isinstance(callable_, types.BuiltinMethodType) and isinstance(callable_.__self__, torch.Tensor):
        return substitutes.torch_call, getattr(torch.Tensor, callable_.__name__)
    return None


def _operation(callable_: Any) -> Any:
    if isinstance(callable_, OPERATIONS) or is_torch_operation(callable_):
        return substitutes.torch_call
    return None


def _wrapper(callable_: Any) -> Any:
    return True if isinstance(callable_, _WRAPPERS) or isinstance(callable_, _core.Compiled) else None


def _python_class(callable_: Any) -> Any:
    if not isinstance(callable_, type):
        return None
    known = all(_core.is_python_class(base) or base in _BASES or issubclass(base, BaseException) or id(base) in PURE
                for base in callable_.__mro__)
    return True if known and _core.is_python_class(callable_) or isinstance(callable_, type) and issubclass(callable_, BaseException) else None


def _python_instance(callable_: Any) -> Any:
    method = getattr(type(callable_), "__call__", None)
    return True if _core.is_python_class(type(callable_)) and isinstance(method, types.FunctionType) else None


def _declared(table: dict[int, Any]) -> Any:
    return lambda callable_: True if id(callable_) in table else None


def _method_of_safe_type(callable_: Any) -> Any:
    owner = getattr(callable_, "__objclass__", None)
    if owner is None and isinstance(callable_, types.BuiltinMethodType) and isinstance(callable_.__self__, type):
        owner = callable_.__self__
    return True if owner in _SAFE else None


_SAFE = frozenset(pure.safe_self_types())
_core.set_safe_receivers(tuple(_SAFE))

#: read from the top; the first that answers decides
_ORDER: tuple[tuple[int, Any], ...] = (
    (BOUND, _bound_tensor_method),
    (HANDLER, _operation),
    (UNWRAP, _wrapper),
    (HIGHER, _declared(HIGHER_ORDER)),
    (PURE_, _declared(PURE)),
    (ON_INTERNALS, _declared(PURE_ON_INTERNALS)),
    (PURE_, _method_of_safe_type),
    (NATIVE, _python_class),
    (NATIVE, _python_instance),
)


def unwrap(callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The callable inside a wrapper, with its arguments: the call rule starts again with it."""
    if isinstance(callable_, functools.partial):
        return callable_.func, callable_.args + args, {**callable_.keywords, **kwargs}
    if isinstance(callable_, types.MethodWrapperType):
        return getattr(callable_.__objclass__, callable_.__name__), (callable_.__self__, *args), kwargs
    if isinstance(callable_, _core.Compiled):
        return callable_.function, callable_.bound + args, kwargs
    return callable_.__wrapped__, args, kwargs

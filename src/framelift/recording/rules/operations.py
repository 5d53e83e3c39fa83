"""Which callables are torch operations: one call, one node.  Everything else of torch runs as ordinary Python.

Operations are C functions of torch that take or make tensors, operators of torch.ops, Tensor's methods, and the Python
functions that torch itself lets be overridden.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any

import torch

from ..._core import id, is_a
from ...graph.fx.targets import OPERATORS
from ...torch_ports.operators import OpOverload, OpOverloadPacket
from ...torch_ports.tensors import (
    TensorBase,
    VariableFunctions,
    fft_functions,
    linalg_functions,
    nested_functions,
    nn_functions,
    sparse_functions,
    special_functions,
)
from ...vocabulary.torch_code import is_replacement
from .ranks import RULES
from .special_cases import GIVES_VALUES

#: C modules and classes whose functions are all operations
_NATIVE_OWNERS = (
    VariableFunctions,
    nn_functions,
    linalg_functions,
    fft_functions,
    special_functions,
    sparse_functions,
    nested_functions,
)
#: overridable for the sake of subclasses or symbolic numbers, but no operations
_NOT_OPERATIONS = ("torch.distributed", "torch.sym_", "torch._sym_")


@functools.cache
def torch_operations() -> Mapping[int, Any]:
    """id -> callable, for every operation known by itself.  Operators of torch.ops are known by their type instead."""
    found: dict[int, Any] = {}
    for func in torch.overrides.get_testing_overrides():
        if type(func) is not types.MethodWrapperType and not _excluded(func):
            found[id(func)] = func
    for owner in _NATIVE_OWNERS:
        for member in map(functools.partial(getattr, owner), dir(owner)):
            if is_a(member, types.BuiltinFunctionType) and not member.__name__.startswith("__"):
                found[id(member)] = member
    for cls in (TensorBase, torch.Tensor):
        for name, member in cls.__dict__.items():
            if is_a(member, (types.MethodDescriptorType, types.WrapperDescriptorType)) and (
                name in OPERATORS or not name.startswith("__")
            ):
                found[id(member)] = member
    # as one node: inside are class statements
    masked = [getattr(torch.masked, name) for name in torch.masked.__all__ if name.islower() and "tensor" not in name]
    for func in (torch.Tensor.__iter__, torch.Tensor.unflatten, torch.functional.broadcast_shapes, *masked):
        found[id(func)] = func
    found.update(GIVES_VALUES)
    found.update((key, func) for key, (func, _) in RULES.items())
    for key in [key for key, func in found.items() if is_replacement(func)]:
        del found[key]
        RULES.pop(key, None)
        GIVES_VALUES.pop(key, None)
    return types.MappingProxyType(found)


def _excluded(func: Any) -> bool:
    name = f"{getattr(func, '__module__', None)}.{getattr(func, '__qualname__', '')}"
    return name.startswith(_NOT_OPERATIONS)


def is_torch_operation(func: Any) -> bool:
    """Return whether calling this is one operation for the recorder."""
    return id(func) in torch_operations() or is_a(func, (OpOverload, OpOverloadPacket))

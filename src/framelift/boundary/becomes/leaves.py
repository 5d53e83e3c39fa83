"""Immutable leaves: values that are themselves inside and outside, guarded by equality."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

from ..._core import id, is_a
from ...torch_ports.tensors import SDPBackend
from ...vocabulary.plain_types import PYTHON_CONSTANTS, SINGLETONS, TORCH_CONSTANTS

LEAF_TYPES = frozenset(
    {
        *PYTHON_CONSTANTS,
        *TORCH_CONSTANTS,
        *SINGLETONS,
        range,
        torch.Size,
        torch.qscheme,
        torch.finfo,
        torch.iinfo,
        SDPBackend,
    }
)
_LEAF_IDS = frozenset(map(id, LEAF_TYPES))

#: identity decides: functions, classes, modules, built-ins and descriptors are themselves inside and outside
CONSTANT_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    types.ModuleType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
    types.CodeType,
    property,
    staticmethod,
    classmethod,
    types.GenericAlias,
    types.UnionType,
)


def is_leaf(value: Any) -> bool:
    """Return whether `value` is an immutable leaf, tuples, slices and frozensets of leaves included."""
    if id(type(value)) in _LEAF_IDS:  # a metaclass may have code of its own for hashing the class
        return True
    return all(id(type(one)) in _LEAF_IDS for one in _parts(value))


def holds_nan(value: Any) -> bool:
    """Return whether a leaf is or holds a number that is not equal to itself: containers find it by identity alone."""
    return any((type(one) is float or type(one) is complex) and one != one for one in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """Yield what immutable containers hold in the end; they may be nested deeper than functions may call each other."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is tuple or type(one) is frozenset:
            waiting += one
        elif type(one) is slice:
            waiting += one.start, one.stop, one.step
        else:
            yield one


def is_constant(value: Any) -> bool:
    """Return whether `value` is distinguished by identity alone."""
    return is_a(value, CONSTANT_TYPES)

"""Immutable leaves: values that are themselves inside and outside, guarded by equality."""

from __future__ import annotations

import types
from typing import Any

import torch

from ..._core import id, is_a
from ...torch_ports.tensors import SDPBackend
from ...vocabulary.plain_types import PYTHON_CONSTANTS, TORCH_CONSTANTS

LEAF_TYPES = frozenset(
    {
        *PYTHON_CONSTANTS,
        *TORCH_CONSTANTS,
        type(Ellipsis),
        type(NotImplemented),
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
    cls = type(value)
    if id(cls) in _LEAF_IDS:  # a metaclass may have code of its own for hashing the class
        return True
    if cls is tuple or cls is frozenset:
        return all(map(is_leaf, value))
    if cls is slice:
        return is_leaf(value.start) and is_leaf(value.stop) and is_leaf(value.step)
    return False


def holds_nan(value: Any) -> bool:
    """Return whether a leaf is or holds a number that is not equal to itself: containers find it by identity alone."""
    cls = type(value)
    if cls is float or cls is complex:
        return bool(value != value)
    return (cls is tuple or cls is frozenset) and any(map(holds_nan, value))


def is_constant(value: Any) -> bool:
    """Return whether `value` is distinguished by identity alone."""
    return is_a(value, CONSTANT_TYPES)

"""Special methods that C code calls past the probes: what they may be, so that whatever they read is still seen.

A Python function runs as a watched frame, whoever calls it.  A bound method, a partial or a C function in its
place would reach the objects it holds without any probe: classes with such a method are not captured.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from ..._core import is_a
from ...guards.special_names import CALLED

#: methods of `object` that read or write the attributes of whatever they are called with
_OPEN = frozenset(f"__{name}__" for name in "getattribute setattr delattr dir reduce reduce_ex getstate".split())
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


def unwatched_method(pairs: Iterable[tuple[str, Any]]) -> str | None:
    """The name of a special method among `pairs` that C code would call unseen; None where there is none."""
    return next((name for name, value in pairs if name in CALLED and not _is_watched(name, value)), None)


def _is_watched(name: str, value: Any) -> bool:
    kind = type(value)
    if (
        kind is types.FunctionType
        or kind is property
        or not callable(value)
        and kind not in (staticmethod, classmethod)
    ):
        return True
    if kind in (staticmethod, classmethod):
        return _is_watched(name, value.__func__)
    if kind in _DESCRIPTORS:
        return value.__objclass__ is not object or value.__name__ == name or value.__name__ not in _OPEN
    if kind is types.BuiltinFunctionType:
        return name == "__new__" or is_a(value.__self__, type)
    return is_a(value, type)

"""The guard on a tensor of a wrapper subclass itself; its inner tensors have guards of their own."""

from __future__ import annotations

import enum
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..._core import is_a
from ...torch_ports.modes import DisableTorchFunction, dispatch_keys
from ...vocabulary.class_reads import members_of, mro_of
from ...vocabulary.plain_types import PYTHON_CONSTANTS
from .wrappers import described, followed_by, inner_tensors, taken_apart, wrapper_facts

_keys = dispatch_keys
#: what an attribute may hold so that the same object is the same value; the tensors among them are guarded where they
#: matter
_SETTLED = (torch.Tensor, *PYTHON_CONSTANTS, torch.dtype, torch.device, torch.layout, torch.Size, enum.Enum)


def sizes_hold(
    tensor: torch.Tensor, names: list[str], context: Any, *symbolic: frozenset[int]
) -> Callable[[Any], bool]:
    """The guard on a wrapper itself: taken apart it gives the same, and its own metadata is what it was.  Torch
    function must be off.

    Sizes and strides that follow from sizes of inner tensors, the `symbolic` ones, are not compared with what they
    were: the inner tensors are guarded on their own.
    """
    facts = wrapper_facts(tensor, context, {})
    keys = dispatch_keys(tensor).raw_repr()
    wanted = described(context)
    kind, dtype, device, flags = facts.kind, facts.dtype, facts.device, facts.key()[4:]
    size, stride = (
        [None if i in left_out else entry for i, entry in enumerate(entries)]
        for entries, left_out in zip((facts.size, facts.stride), symbolic)
    )
    inner = inner_tensors(tensor, names)
    followed = [(i, found) for i in symbolic[0] | symbolic[1] if (found := followed_by(tensor, inner, i)) is not None]
    steps = [(i, found) for i, found in followed if inner[found].stride(i) == facts.stride[i]]

    def holds(now: Any) -> bool:
        if type(now) is not kind:
            return False
        with DisableTorchFunction():
            found, state = taken_apart(now)
            if found != names or described(state) != wanted or dispatch_keys(now).raw_repr() != keys:
                return False
            same = wrapper_facts(now, None, {})
            if not all(same.size[i] == getattr(now, name).size(i) for i, name in followed) or not all(
                same.stride[i] == getattr(now, name).stride(i) for i, name in steps
            ):
                return False
        return (
            (same.dtype, same.device, *same.key()[4:]) == (dtype, device, *flags)
            and _entries_hold(size, same.size)
            and _entries_hold(stride, same.stride)
        )

    return holds if symbolic[0] or symbolic[1] else _remembering(holds, kind)


def _remembering(holds: Callable[[Any], bool], kind: type) -> Callable[[Any], bool]:
    """`holds`, checked once while the attributes are the same objects and the metadata is the same: it reads no more.

    The wrapper itself is not remembered: `torch.utils.swap_tensors` refuses a tensor that has a weak reference.
    """
    slots = [
        found for cls in mro_of(kind) for found in members_of(cls).values() if type(found) is types.MemberDescriptorType
    ]
    values: tuple[Any, ...] | None = None
    seen: tuple[Any, ...] = ()

    def ask(now: Any) -> bool:
        nonlocal values, seen
        with DisableTorchFunction():
            found = (
                (
                    type(now),
                    now.requires_grad,
                    now.is_leaf,
                    now.is_inference(),
                    now.dtype,
                    now.device,
                    now.size(),
                    now.stride(),
                    _keys(now).raw_repr(),
                )
                if is_a(now, torch.Tensor)
                else ()
            )
        if values is not None and found == seen and _are(_held(now, slots), values):
            return True
        values = None
        if not holds(now):
            return False
        if all(is_a(value, _SETTLED) for value in now.__dict__.values()):
            # Tensors are not kept alive by a guard; a weak reference distinguishes one from another that was put at its
            # address.
            values = tuple(weakref.ref(value) if is_a(value, torch.Tensor) else value for value in _held(now, slots))
            seen = found
        return True

    return ask


def _held(now: Any, slots: list[Any]) -> list[Any]:
    """The values of an object's attributes."""
    values = [*now.__dict__.values()]
    for slot in slots:
        try:
            values.append(slot.__get__(now))
        except AttributeError:
            values.append(None)
    return values


def _are(own: list[Any], values: tuple[Any, ...]) -> bool:
    if len(own) != len(values):
        return False
    for now, before in zip(own, values):
        if (before() if type(before) is weakref.ReferenceType else before) is not now:
            return False
    return True


def _entries_hold(wanted: list[int | None], given: Any) -> bool:
    return len(wanted) == len(given) and all(a is None or type(b) is int and a == b for a, b in zip(wanted, given))

"""Effects of in-place operations on their arguments: memory written, shapes changed, histories gained.

Followed only where autograd's rules are plain; everything else interrupts, so that a wrong `requires_grad` or a
write that autograd would have refused never gets into a graph.
"""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...vocabulary.reasons import Interrupt
from ..fx.targets import Target, getter_target
from ..fx.values import EXCHANGED, Step, Value
from ..metadata.cache import Outcome
from ..metadata.facts import Facts, new_stand_in
from ..state.torch_state import State

#: Tensor methods that give a tensor another shape over the same memory
RESHAPES_IN_PLACE = frozenset({"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_"})


def apply_writes(target: Target, outcome: Outcome, found: list[Value], state: State, out: Any = None) -> None:
    """Take over what an operation does to its arguments, or interrupt.  `out` is the argument of that name.  Torch
    function must be off.
    """
    with_grad = state.grad and any(value.facts.requires_grad for value in found)
    for index in outcome.written:
        value = found[index]
        if value.facts.stride and _overlaps_itself(value.facts):
            # Kernels refuse to write where elements share a place, or the last of them stays; fakes do not, and
            # functional graphs copy first.
            raise Interrupt("torch-operation-failed", f"{target.name} into a tensor whose elements overlap")
        if with_grad and (value.view or value.external is not None):
            _check_view_write(target, value)
        if value.storage.wrapped:
            raise Interrupt("tensor-subclass", f"of a wrapper class, of which {target.name} changes an inner tensor,")
        if value.storage.shared:
            raise Interrupt("torch-operation", f"{target.name} into a tensor that may be another one too")
        value.storage.written = True
    for index, facts in outcome.changes:
        value = found[index]
        if value.external is not None:
            _gain_history_outside(target, value, facts, index in outcome.written)
        elif _loses_history(target, value, facts):
            pass
        elif facts.requires_grad != value.facts.requires_grad or facts.is_leaf != value.facts.is_leaf:
            _gain_history(target, value, index in outcome.written)
        if facts.size != value.facts.size or facts.stride != value.facts.stride:
            # fakes resize where torch itself refuses
            if target.fx_target not in RESHAPES_IN_PLACE and not _fills(value, out, facts, found):
                raise Interrupt("torch-operation", f"{target.name}, which changes the size of a tensor")
            with torch.no_grad():
                value.stand_in.set_(new_stand_in(facts))
        value.facts = facts


def _overlaps_itself(facts: Facts) -> bool:
    """Return whether elements may share a place.  Symbolic strides are those of an ordinary layout, unless one is 0."""
    reach = 0  # of the dimensions with smaller strides
    numbers = [
        pair
        for pair in zip(facts.stride, facts.size)
        if type(pair[0]) is int and (type(pair[1]) is not int or pair[1] > 1)
    ]
    for step, size in sorted(numbers, key=lambda pair: pair[0]):
        if step <= reach:
            return True
        if type(size) is not int:  # all that follow are counted in symbols
            return any(other == 0 for other, _ in numbers)
        reach += (size - 1) * step
    return False


def _fills(value: Value, out: Any, facts: Facts, found: list[Value]) -> bool:
    """Return whether an empty tensor made inside gets the result's size; contiguous arguments give contiguous
    results.
    """
    return (
        any(value is one for one in (out if is_a(out, (tuple, list)) else (out,)))
        and value.external is None
        and not value.view
        and len(value.storage.values) == 1
        and value.facts.size.numel() == 0
        and facts.is_contiguous()
        and all(one.facts.is_contiguous() for one in found)
    )


def _loses_history(target: Target, value: Value, facts: Facts) -> bool:
    """Return whether this is `detach_` of a tensor made inside, whose memory no other tensor shares."""
    return (
        target.fx_target == "detach_"
        and facts is value.facts.but(requires_grad=False, is_leaf=True)
        and not value.view
        and len(value.storage.values) == 1
        and not value.storage.external
    )


def _gain_history_outside(target: Target, value: Value, facts: Facts, written: bool) -> None:
    """An in-place operation gave an input a history: the graph does so too, if nothing else shares its memory."""
    plain = value.facts.but(requires_grad=True, is_leaf=False) is facts and not value.facts.requires_grad
    if not plain or not written or len(value.storage.values) > 1 or _core.of_tensor(value.external, "_is_view"):
        raise Interrupt("torch-operation", f"{target.name}, which changes the metadata of an input")


def _gain_history(target: Target, value: Value, written: bool) -> None:
    """An in-place operation made a tensor require grad: so do its base and its ordinary views.  What `detach` and
    `data` gave is another variable over the same memory.
    """
    first = first_of(value)
    same = [] if first is None else [other for other in value.storage.values if first_of(other) in (first, None)]
    if not written or not same or any(one.external is not None or one.view not in _PLAIN for one in same):
        raise Interrupt("torch-operation", f"{target.name}, which changes the autograd state of a tensor")
    for other in same:
        if not other.facts.requires_grad:
            other.facts = other.facts.but(requires_grad=True, is_leaf=False)
            if other is not first and other is not value:
                other.view = "regained"  # autograd is fickle about writes to it from now on


#: views whose history is known
_PLAIN = ("", "view", "detached")


def first_of(value: Value) -> Value | None:
    """The tensor without a base in autograd that one is a view of, by any number of views; None: nobody knows."""
    while value.external is None and value.view not in ("", "detached"):
        above = [one for one in value.step.inputs if one.storage is value.storage] if value.step is not None else ()
        if len(above) != 1 or value.view == EXCHANGED:
            return None
        value = above[0]
    return value


def is_data(value: Value) -> bool:
    """Return whether it is what `Tensor.data` gave."""
    return value.view == "detached" and type(value.step) is Step and value.step.target is getter_target("data")


def _check_view_write(target: Target, value: Value) -> None:
    """Autograd forbids some writes to views; in a graph they might pass, so they are left to eager mode."""
    if value.external is not None:
        forbidden = _core.of_tensor(value.external, "_is_view")
    else:
        first = first_of(value)
        known = value.storage.values if first is None else (first,)  # an operation may hide the first one inside
        leaf = any(one.facts.is_leaf and one.facts.requires_grad for one in known)
        forbidden = value.view not in ("view", "detached") or (value.view == "view" and leaf)
    if forbidden:
        raise Interrupt("torch-operation", f"{target.name}, which writes to a view that autograd protects")

"""Writes to memory that another argument of the same operation reads.

Kernels refuse most of them ("some elements of the input tensor and the written-to tensor refer to a single memory
location") and the rest depends on the order of the elements.  Compilers that make graphs functional copy first,
and give a result: such a call is plain Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._core import is_a
from ..graph.analysis.in_place import RESHAPES_IN_PLACE
from ..graph.fx.targets import OneNode, Target, target_of
from ..graph.fx.values import Step, Storage, Value
from ..graph.metadata.cache import Outcome
from ..graph.metadata.facts import Facts
from ..graph.symbols.numbers import Int
from ..torch_ports.tensors import TensorBase
from ..vocabulary.reasons import Interrupt
from .session import Recorder

_SETTERS = (target_of(torch.Tensor.__setitem__), target_of(TensorBase.__setitem__))
_GETTERS = (target_of(torch.Tensor.__getitem__), target_of(TensorBase.__getitem__))
_SELECTS = tuple(map(target_of, (torch.select, torch.Tensor.select, TensorBase.select)))
#: what gives a tensor another place in its memory
_MOVES = tuple(
    target_of(getattr(owner, name))
    for name in sorted(RESHAPES_IN_PLACE)
    for owner in (torch, torch.Tensor, TensorBase)
    if hasattr(owner, name)
)
#: what makes a tensor with the strides that the program asks for
_STRIDED = tuple(
    target_of(function)
    for function in (
        torch.empty_strided,
        torch.Tensor.new_empty_strided,
        TensorBase.new_empty_strided,
        torch.ops.aten.empty_strided.default,
        torch.ops.aten.new_empty_strided.default,
    )
)
_MOST_ELEMENTS = 100_000  # that are looked at one by one


def check_overlaps(recorder: Recorder, target: Target, kept: list[Any], outcome: Outcome, found: list[Value]) -> None:
    """Interrupt where an argument shares some elements, but not all in the same order, with what is written."""
    for index in outcome.written:
        value = found[index]
        others = [other for other in found if other is not value and other.storage is value.storage]
        if others:
            part = kept[1] if target in _SETTERS and kept[0] is value else ()
            whole = value if type(part) in (int, Int) else _row_of(value) if part in ((), ...) else None
            if whole is not None and all(_row_of(other) is whole for other in others):
                continue  # the same row, or another one
            if _in_other_rows(recorder, value, others):
                continue

            def written_apart(fakes: Any, part: Any = part) -> bool:
                return _apart(fakes[0][part], fakes[1:])

            if not _is_basic(part) or not _replayed(recorder, target, [value, *others], written_apart):
                raise Interrupt("torch-operation-failed", f"{target.name} into memory that another argument looks at")


def _replayed(recorder: Recorder, target: Target, asked: list[Value], then: Callable[[list[Any]], bool]) -> bool:
    """Return the result of `then` for fakes of these values, which share memory.

    Where all are views of one value, only what made the views is run.
    """
    chain = views_of_one(recorder, asked)
    if chain is not None:
        first, steps, values = chain
        fakes = recorder.replay_views(target.name, first, steps, [*asked, *values])
        if all(_lies_as(fake, value) for fake, value in zip(fakes, (*asked, *values))):
            return then(fakes[: len(asked)])
    answer: bool = recorder.replay(target.name, asked, then)
    return answer


def _lies_as(fake: torch.Tensor, value: Value) -> bool:
    return fake.shape == value.facts.size and fake.stride() == value.facts.stride


def views_of_one(recorder: Recorder, asked: list[Value]) -> tuple[Value, list[Step], list[Value]] | None:
    """The value that these are views of, the steps that made them of it, in order, and the values between."""
    storage = asked[0].storage
    if recorder.symbols is not None or recorder.in_transform() or recorder.gradients.exchanged:
        return None
    if _is_moved(recorder, storage):
        return None
    steps: set[int] = set()
    views: dict[int, Value] = {}
    first: Value | None = None
    for value in asked:
        while id(value) not in views and value is not first:
            if type(value.facts) is not Facts:
                return None
            step = value.step
            if step is None or all(one.storage is not storage for one in step.inputs):
                if first is not None:
                    return None
                first = value
            elif len(step.inputs) != 1 or step.effect:
                return None
            else:
                steps.add(id(step))
                views[id(value)] = value
                value = step.inputs[0]
    order = [step for step in recorder.tape if id(step) in steps]
    return (first, order, list(views.values())) if first is not None and len(order) == len(steps) else None


def _row_of(value: Value) -> Value | None:
    """The tensor that one is a row of, where rows have an element in common only if they are the same."""
    step = value.step
    if (
        step is None
        or step.kwargs
        or not (
            step.target in _GETTERS
            and type(step.args[1]) in (int, Int)
            or step.target in _SELECTS
            and len(step.args) == 3
            and step.args[1] == 0
        )
    ):
        return None
    base = step.args[0]
    sizes, strides = tuple(base.facts.size), base.facts.stride
    if strides is None or not sizes or any(type(number) is not int for number in (*sizes[1:], *strides)):
        return None
    length = sum((size - 1) * stride for size, stride in zip(sizes[1:], strides[1:]))
    return base if strides[0] == 0 or strides[0] > length else None


def _in_other_rows(recorder: Recorder, value: Value, others: list[Value]) -> bool:
    """Return whether a tensor and these are in different rows of one that was computed: whatever its sizes are."""
    row = _within_row(value)
    if row is None or _is_moved(recorder, value.storage):
        return False
    base, number = row
    rows = [_within_row(other) for other in others]
    return all(one is not None and one[0] is base and one[1] != number and (one[1] < 0) == (number < 0) for one in rows)


def _within_row(value: Value) -> tuple[Value, int] | None:
    """A computed tensor, and the number of the row of it that one lies in.  Kernels give no element a place twice,
    unless strides are asked for.
    """
    while (step := value.step) is not None and step.target in _GETTERS and not step.kwargs and _is_basic(step.args[1]):
        index, value = step.args[1], step.args[0]
        first = index[0] if type(index) is tuple and index else index
        maker = value.step
        if type(first) is int and maker is not None and all(one.storage is not value.storage for one in maker.inputs):
            return None if maker.target in _STRIDED or type(maker.target) is OneNode else (value, first)
    return None


def _is_moved(recorder: Recorder, storage: Storage) -> bool:
    return any(step.target in _MOVES and any(one.storage is storage for one in step.inputs) for step in recorder.tape)


def _is_basic(index: Any) -> bool:
    """Return whether it is an index that gives a view."""
    if type(index) is tuple:
        return all(map(_is_basic, index))
    return index is None or index is Ellipsis or type(index) in (int, slice)


def _apart(written: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Return whether each of these is the same tensor as what is written, or has no element in common with it."""
    return all(_same(written, other) or not _overlap(written, other) for other in others)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _place(one) == _place(other) and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether they may have an element in common.  Inputs that share memory are fakes with memory of their own:
    nothing is known of them.
    """
    if one.untyped_storage()._cdata != other.untyped_storage()._cdata or one.dtype != other.dtype:
        return True
    if any(
        not is_a(number, int)
        for tensor in (one, other)
        for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    ):
        return True
    if one.numel() == 0 or other.numel() == 0:
        return False
    (first, last), (start, end) = _range(one), _range(other)
    if last < start or end < first:
        return False
    return max(last, end) >= _MOST_ELEMENTS or bool(set(_elements(one)) & set(_elements(other)))


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    offset = tensor.storage_offset()
    return offset, offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))


def _elements(tensor: torch.Tensor) -> list[int]:
    """The places of its elements in their memory."""
    places = [tensor.storage_offset()]
    for size, step in zip(tensor.shape, tensor.stride()):
        places = [place + i * step for place in places for i in range(size)]
    return places

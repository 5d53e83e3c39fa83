"""`bool(tensor)` and `item in container` over tensors: truth values that only the graph knows.

They are numbers of the graph (`config.capture_scalar_outputs`): handed on and returned as they are, and the end of the
rehearsal only where Python asks for one.  Where such numbers are not captured, Python's own way is gone.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from ... import _core, config
from ...graph.metadata.facts import Facts
from ...graph.symbols.numbers import NUMBERS, Float, Int
from ...overriding.modes import is_overridden
from ...recording.session import Session

#: what a tensor is compared with element by element; anything else it does not equal
_COMPARED = (int, float, bool, Int, Float)
#: two of these are equal or not, whatever else is there
_PLAIN = frozenset((int, float, bool, complex, str, bytes, type(None)))


def truth_of(session: Session, tensor: Any) -> Any:
    """`bool(tensor)` of a single element; NotImplemented where Python's own way decides."""
    if not _are_captured(session, (tensor,)) or not _is_one_element(session, tensor):
        return NotImplemented
    recorder = session.recorder
    if recorder.value_of(tensor).facts.dtype is not torch.bool:
        tensor = recorder.call(torch.Tensor.ne, (tensor, 0), {})
    return recorder.call(torch.Tensor.item, (tensor,), {})


def contains_tensor(session: Session, item: Any, container: Any) -> Any:
    """`item in container`, where the container is a tensor, or a list or tuple, and some of it are tensors."""
    found = NotImplemented
    if session.is_stand_in(container):
        found = _among_elements(session, item, container)
    elif type(container) in (list, tuple):
        found = _among_items(session, item, container)
    return bool(_core.natively(operator.contains, (container, item), None)) if found is NotImplemented else found


def _are_captured(session: Session, operands: tuple[Any, ...]) -> bool:
    return config.capture_scalar_outputs and not session.in_transform() and not is_overridden(session, operands, {})


def _is_one_element(session: Session, tensor: Any) -> bool:
    facts = session.value_of(tensor).facts
    return type(facts) is Facts and facts.size.numel() == 1


def _among_elements(session: Session, item: Any, tensor: Any) -> Any:
    recorder = session.recorder
    if not _are_captured(session, (item, tensor)) or not (type(item) in _COMPARED or recorder.is_stand_in(item)):
        return NotImplemented
    equal = recorder.call(torch.Tensor.eq, (tensor, item), {})
    return truth_of(session, recorder.call(torch.Tensor.any, (equal,), {}))


def _among_items(session: Session, item: Any, items: Any) -> Any:
    """As C code asks: the same object, or an equal one.  The first that is decides, and asking has no effect."""
    recorder = session.recorder
    if not _are_captured(session, (item, *items)):
        return NotImplemented
    unknown = []
    for one in items:
        pair = (one, item)
        if one is item or {type(one), type(item)} <= _PLAIN and one == item:
            return True
        tensors = [part for part in pair if recorder.is_stand_in(part)]
        if not tensors and all(type(part) in _PLAIN for part in pair):
            continue
        if not tensors or not all(type(part) in _COMPARED or recorder.is_stand_in(part) for part in pair):
            return NotImplemented
        if not all(_is_one_element(session, tensor) for tensor in tensors):
            return NotImplemented  # has no truth, or cannot be compared: an error, unless an item before is equal
        tensor = tensors[0]
        equal = recorder.call(torch.Tensor.eq, (tensor, pair[0] if tensor is pair[1] else pair[1]), {})
        unknown.append(truth_of(session, equal))
    if any(type(truth) not in (bool, *NUMBERS) for truth in unknown):
        return NotImplemented
    return functools.reduce(operator.or_, unknown, False) if unknown else False

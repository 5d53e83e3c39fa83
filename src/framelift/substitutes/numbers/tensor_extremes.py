"""`max` and `min` of tensors of one element: which of them it is, only the graph knows, so it gives a copy of that one.

Nobody sees that it is a copy: the operands were made inside and require no grad, nobody writes to them or to the
result or asks which is which, and where the result leaves the frame none of the operands does
(recording/chosen.py).
"""

from __future__ import annotations

import types
from typing import Any

import torch

from ... import _core
from ...graph.fx.values import Value
from ...graph.metadata.facts import Facts
from ...overriding.modes import is_overridden
from ...recording.session import Session
from ...vocabulary.code_knowledge import knowledge_of
from ...vocabulary.reasons import Interrupt

_COMPARED = {max: torch.Tensor.gt, min: torch.Tensor.lt}
_LISTED = (list, tuple)
_WALKED = (types.GeneratorType, map)


def items_of(session: Session, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items that `max` or `min` compares, where they are known before it does; else its arguments."""
    if len(args) != 1:
        return args
    if type(args[0]) in _LISTED:
        return tuple(args[0])
    known = knowledge_of(session.function.__code__)
    if type(args[0]) not in _WALKED or known.compares_while_walking:
        return args
    done = session.recorder.written
    written = len(done)
    items: tuple[Any, ...] = _core.natively(tuple, args, None)
    own = any(_core.is_python_class(type(item)) and not session.is_stand_in(item) for item in items)
    if own or len(done) > written:  # comparisons come between the items, and would tell
        stop = Interrupt("unknown-callable", "max or min over an iterator that tells when its items are compared")
        stop.first = known.lesson("compares_while_walking")
        raise stop
    return items


def extreme_of(session: Session, builtin: Any, items: tuple[Any, ...]) -> Any:
    """The first of the greatest or the least; NotImplemented where Python's own way decides."""
    recorder = session.recorder
    if (
        len(items) < 2
        or not all(session.is_stand_in(item) for item in items)
        or knowledge_of(session.function.__code__).chooses_eagerly
        or recorder.in_transform()
        or recorder.tape_is_a_body()
        or recorder.wrapped is not None
        or is_overridden(session, items, {})
    ):
        return NotImplemented
    values = [recorder.value_of(item) for item in items]
    if not all(map(_may_be_copied, values)) or len({value.facts for value in values}) > 1:
        return NotImplemented
    if all(recorder.known(item) is not None for item in items):
        return NotImplemented
    found = items[0]
    for item in items[1:]:
        found = recorder.call(torch.where, (recorder.call(_COMPARED[builtin], (item, found), {}), item, found), {})
    result = recorder.value_of(found)
    if result.facts != values[0].facts:
        return NotImplemented
    recorder.chosen.add(result, values)
    return found


def _may_be_copied(value: Value) -> bool:
    return (
        type(value.facts) is Facts
        and value.facts.size.numel() == 1
        and not value.facts.requires_grad
        and not value.facts.is_inference
        and not value.storage.external
        and not value.view
    )

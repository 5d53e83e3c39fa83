"""`Tensor.retain_grad` in captured code: results that keep the gradients that pass through them.

A backward of the program's own gives them theirs (differentiation.py).  Backward passes outside are torch's
business, which only comes by a result of a graph that torch itself runs: other compilers give all results one
history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..graph.fx.node_functions import hook_gradient
from ..graph.fx.targets import target_of
from ..graph.fx.values import Value
from ..vocabulary.reasons import Interrupt
from .rules.ranks import rule

if TYPE_CHECKING:
    from .session import Recorder

_LEAVES = "Tensor.retain_grad of a tensor that is a result"


@rule(torch.Tensor.retain_grad)
def _retain_grad(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    (tensor,) = (*args, *kwargs.values())
    value: Value = recorder.value_of(tensor)
    if not value.facts.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not value.facts.is_leaf:
        retain(recorder, value)


def retain(recorder: Recorder, value: Value) -> None:
    """A result keeps its gradient from now on."""
    if value.external is not None:
        raise Interrupt("torch-operation", "Tensor.retain_grad of an input that has a history")
    if recorder.in_transform() or recorder.tape_is_a_body() or recorder.wrapped is not None:
        raise Interrupt("torch-operation", _LEAVES)
    if recorder.knowledge.breaks_at_retain_grad:
        recorder.knowledge.breaks_at_retain_grad = False  # the rest is captured then
        raise Interrupt("torch-operation", _LEAVES)
    recorder.gradients.retained.setdefault(value, (_writes(recorder, value), _is_used(recorder, value)))


def retained(recorder: Recorder) -> list[Value]:
    """The results that keep their gradients; interrupts where one has a hook, or a view whose memory was written since:
    its history is another one.
    """
    if any(
        _is_hooked(recorder, value) or len(value.storage.values) > 1 and _is_written(recorder, value)
        for value in recorder.gradients.retained
    ):
        raise _rather_plain(recorder)
    return list(recorder.gradients.retained)


def leave_retaining(recorder: Recorder, outputs: Sequence[Any]) -> None:
    """Those among the results of the graph keep their gradients."""
    leaving = [value for value in recorder.gradients.retained if value in outputs]
    if leaving and (
        not recorder.runs_as_is()
        or recorder.gradients.differentiated
        or recorder.gradients.differentiable
        or not retained(recorder)
    ):
        raise _rather_plain(recorder)
    for value in leaving:
        recorder.append(target_of(torch.Tensor.retain_grad), [value])


def _rather_plain(recorder: Recorder) -> Interrupt:
    """An interrupt; in the next rehearsal, there is one where the program first asks for it.

    The results of a compiler's graph have one history, in which none comes by another, and its hooks act behind
    what is seen outside: so one that was used before, or is written to or hooked, leaves the whole frame to eager
    mode.
    """
    stop = Interrupt("torch-operation", _LEAVES)
    stop.run_eagerly = not recorder.runs_as_is() and any(
        used or _is_written(recorder, value) or _is_hooked(recorder, value)
        for value, (_, used) in recorder.gradients.retained.items()
    )
    if not stop.run_eagerly:
        stop.first = recorder.knowledge.lesson("breaks_at_retain_grad")
    return stop


def _is_used(recorder: Recorder, value: Value) -> bool:
    return any(one.storage is value.storage for step in recorder.tape for one in step.inputs)


def _is_written(recorder: Recorder, value: Value) -> bool:
    return _writes(recorder, value) != recorder.gradients.retained[value][0]


def _is_hooked(recorder: Recorder, value: Value) -> bool:
    return any(step.target.func is hook_gradient and step.args[0] is value for step in recorder.tape)


def _writes(recorder: Recorder, value: Value) -> int:
    return sum(one.storage is value.storage for one in recorder.written)

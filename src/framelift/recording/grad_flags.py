"""Switching `requires_grad` of an input: `requires_grad_()` and assignment.

In the graph the tensor is from then on another name for the same memory: detached, or detached and a leaf of its
own.  The real tensor's flag is set once the graph has run.  A tensor made inside is the recorder's business
(special_cases.py).
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.fx.targets import target_of
from ..graph.fx.values import Value
from ..graph.metadata.wrappers import WrapperFacts
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt
from .histories import is_free, may_make_leaf, may_switch
from .rules.special_cases import make_leaf
from .session import Recorder, Session
from .tensor_writes import write

_WHAT = "Tensor.requires_grad_, which changes a tensor's autograd state"


@write("requires_grad")
def _assign(session: Session, tensor: torch.Tensor, new: Any) -> None:
    recorder = session.recorder
    value: Value = recorder.value_of(tensor)
    if value.facts.requires_grad is new:
        recorder.set_attribute(tensor, "requires_grad", new)
    else:
        switch(session, tensor, new)


def switch(session: Session, tensor: torch.Tensor, wanted: Any) -> None:
    """`tensor` shall require grad, or not any more."""
    recorder = session.recorder
    value: Value = recorder.value_of(tensor)
    with DisableTorchFunction():
        if value.external is None:
            make_leaf(recorder, tensor, wanted)
            return
        _check(recorder, value, wanted)
        may_switch(recorder)
        first = recorder.input_value(value.external)
        names = recorder.gradients.flagged.setdefault(id(value.external), {first.facts.requires_grad: first})
        known = names.values()
        # it has other memory by now, or views
        if value not in known or not all(other in known or is_free(other) for other in value.storage.values):
            raise Interrupt("torch-operation", _WHAT)
        if wanted not in names:
            names[wanted] = _other_name(recorder, value, wanted)
        recorder.adopt(names[wanted])
    session.write("tensorattr", tensor, "requires_grad", wanted)


def _check(recorder: Recorder, value: Value, wanted: Any) -> None:
    facts = value.facts
    if (
        type(facts) is WrapperFacts
        or type(wanted) is not bool
        or not facts.is_leaf
        or facts.is_inference
        or value.external._is_view()  # type: ignore[union-attr]  # an input's
        or not (facts.dtype.is_floating_point or facts.dtype.is_complex)
        or recorder.modes
        or recorder.overrides
        or recorder.in_transform()
        or recorder.tape_is_a_body()
    ):
        raise Interrupt("torch-operation", _WHAT)


def _other_name(recorder: Recorder, value: Value, wanted: bool) -> Value:
    same = recorder.value_of(recorder.record(target_of(torch.Tensor.detach), (value.stand_in,), {}, keep=True))
    made = Value(value.stand_in, same.facts, same.storage, same.view)
    made.step, made.path, made.exact, made.external, made.name = (
        same.step,
        same.path,
        value.exact,
        value.external,
        value.name,
    )
    if wanted:
        may_make_leaf(recorder)
        recorder.append(target_of(torch.Tensor.requires_grad_), [made])
        made.facts = made.facts.but(requires_grad=True)
        made.rooted = "outside"
    return made

"""Assignments to attributes that torch defines on tensors: pending writes, done by the entry once the graph has run.

`WRITES` maps a name to `write(session, tensor, new)`.  Other names are the recorder's to refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..boundary.records import DELETED
from ..graph.analysis.in_place import is_data
from ..graph.fx.targets import getter_target
from ..graph.fx.values import AFTER_DATA, EXCHANGED, Value
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt
from .session import Session

Write = Callable[["Session", torch.Tensor, Any], None]

WRITES: dict[str, Write] = {}


def write(name: str) -> Callable[[Write], Write]:
    """Register what assigning to attribute `name` does."""

    def register(function: Write) -> Write:
        WRITES[name] = function
        return function

    return register


def store_attribute(session: Session, tensor: torch.Tensor, name: str, new: Any) -> None:
    """`tensor.name = new`, for a name of torch's."""
    found = WRITES.get(name)
    recorder = session.recorder
    if found is None or recorder.tape_is_a_body():
        recorder.set_attribute(tensor, name, new)
    else:
        found(session, tensor, new)


def delete_attribute(session: Session, tensor: torch.Tensor, name: str, own: bool) -> None:
    """`del tensor.name`: of an attribute of its `own`, which is there, or by a descriptor of torch's; `del tensor.grad`
    sets it to None.
    """
    if name == "grad":
        store_attribute(session, tensor, name, None)
        return
    if not own:
        raise Interrupt("effect-object", f"del Tensor.{name}")
    session.set_pending(tensor, name, DELETED)
    session.write("deltensorattr", tensor, name, None)


def _pending(session: Session, tensor: torch.Tensor, name: str, new: Any) -> None:
    session.set_pending(tensor, name, new)
    session.write("tensorattr", tensor, name, new)


@write("grad")
def _grad(session: Session, tensor: torch.Tensor, new: Any) -> None:
    recorder = session.recorder
    if new is not None:
        facts = recorder.value_of(tensor).facts
        other = recorder.value_of(new).facts if recorder.is_stand_in(new) else None
        if other is None or (facts.size, facts.dtype, facts.device) != (other.size, other.dtype, other.device):
            raise Interrupt("torch-operation", "assignment to Tensor.grad of something unlike the tensor")
    _pending(session, tensor, "grad", new)


@write("data")
def _data(session: Session, tensor: torch.Tensor, new: Any) -> None:
    """The tensor gets other memory: from now on it is one more name for that.

    What one that requires grad is for autograd from then on, only plain Python knows: it is used without grad mode
    only.
    """
    recorder = session.recorder
    value: Value = recorder.value_of(tensor)
    if new is tensor:  # what it has already
        return
    if not recorder.is_stand_in(new) or value.external is None:
        raise Interrupt("torch-operation", "assignment to Tensor.data")
    other = recorder.value_of(new).facts
    if (value.facts.dtype, value.facts.device) != (other.dtype, other.device):
        raise Interrupt("torch-operation", "assignment to Tensor.data of another dtype or device")
    if _is_data_of(recorder.value_of(new), value):  # `t.data += 1`: what it has already
        return
    session.write("tensorattr", tensor, "data", new)
    if recorder.in_transform() or value.facts.is_inference or value.facts.requires_grad and not value.facts.is_leaf:
        value.facts = _RETIRED  # type: ignore[assignment]  # raises whatever is asked of it
        return
    with DisableTorchFunction():
        same = recorder.value_of(recorder.record_getter(getter_target("data"), new))
        made = Value(tensor, same.facts, same.storage, same.view)
    if value.facts.requires_grad:
        made.facts, made.view = made.facts.but(requires_grad=True), EXCHANGED
        recorder.gradients.exchanged = True
    made.step, made.path, made.exact, made.external = same.step, same.path, same.exact, value.external
    recorder.adopt(made)


def _is_data_of(new: Value, value: Value) -> bool:
    """Return whether it is what `Tensor.data` gave for this very tensor."""
    return (
        is_data(new)
        and new.step is not None
        and new.step.args[0] is value
        and (new.facts.size, new.facts.stride) == (value.facts.size, value.facts.stride)
    )


class _Retired:
    """The facts of a tensor whose memory was exchanged: whoever asks for them interrupts."""

    def __getattr__(self, name: str) -> Any:
        raise Interrupt("torch-operation", AFTER_DATA)


_RETIRED = _Retired()

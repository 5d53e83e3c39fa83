"""Autograd's records of a tensor's origin: the tensor it is a view of, its place among an operation's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ...graph.analysis.infallible import goes_by_element
from ...graph.fx.values import Value
from ...vocabulary.reasons import Interrupt
from .attributes import answer

if TYPE_CHECKING:
    from ..session import Recorder


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor that an input is a view of."""
    found: torch.Tensor | None = _core.of_tensor(tensor, "_base")
    return found


def place_of(tensor: torch.Tensor) -> int:
    """Which of an operation's results an input is."""
    return int(_core.of_tensor(tensor, "output_nr"))


def _asking(recorder: Recorder, name: str) -> Callable[[torch.Tensor, Callable[[torch.Tensor], Any]], Any]:
    """Return a function that reads a fact of inputs; interrupts where there may be others than plain tensors."""
    ask = recorder.callbacks.ask
    if (
        ask is None
        or recorder.in_transform()
        or recorder.wrapped is not None
        or recorder.gradients.exchanged
        or recorder.tape_is_a_body()
        or torch.is_inference_mode_enabled()
    ):
        raise Interrupt("tensor-data", f"Tensor.{name}")
    return ask


@answer("_base")
def _base(recorder: Recorder, value: Value) -> Any:
    ask = _asking(recorder, "_base")
    if value.external is not None:
        return ask(value.stand_in, base_of)
    others = [one for one in value.storage.values if one is not value]
    if not value.view and value.step is not None and goes_by_element(value.step.target.name):
        return None
    if not value.view or not others:  # operations may give views of what they made inside, and fakes of them may not
        raise Interrupt("tensor-data", "Tensor._base of a result that is no view of a tensor in sight")
    place = recorder.replay("Tensor._base", [value, *others], _place_of_base)
    if place is None:
        return None
    base = others[place]
    if base.external is None:
        return base.stand_in
    further = ask(base.stand_in, base_of)
    return base.stand_in if further is None else further


def _place_of_base(made: list[Any]) -> int | None:
    """The place of the first tensor's base among the others; None: it has none."""
    view, *others = made
    base = view._base
    if base is None:
        return None
    for place, other in enumerate(others):
        if other is base:
            return place
    raise Interrupt("tensor-data", "Tensor._base that no variable leads to")


@answer("output_nr")
def _output_nr(recorder: Recorder, value: Value) -> Any:
    if not value.facts.requires_grad or value.facts.is_leaf:
        return 0
    ask = _asking(recorder, "output_nr")
    if value.external is None:
        return recorder.replay("Tensor.output_nr", [value], lambda made: made[0].output_nr)
    if value.storage.written:  # it has another history by now
        raise Interrupt("tensor-data", "Tensor.output_nr")
    return ask(value.stand_in, place_of)

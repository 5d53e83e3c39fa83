"""What the program asserts of values that only the graph knows: assumed while capturing, and checked when the graph
runs.

Where an assumption proves wrong, the call runs eagerly, which raises what it raises there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..graph.fx.tape import Step
from ..graph.fx.targets import target_of
from ..graph.metadata.fakes import UNKNOWN
from ..graph.state.torch_state import read_state
from ..graph.symbols.number_nodes import graph_values

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["assertion", "assume"]


def assume(recorder: Recorder, tensor: torch.Tensor, truth: bool) -> bool:
    """Go on as if the truth of `tensor` were this; the graph checks whether it was.  False: not possible here."""
    if recorder.callbacks.assume_otherwise is not None:
        return bool(recorder.callbacks.assume_otherwise(tensor, truth))
    value = recorder.value_of(tensor)
    if any(length != 1 for length in value.facts.size) or recorder.tape_is_a_body() or not recorder.options.assumes:
        return False  # a body's results are not the graph's
    if recorder.stays == UNKNOWN or any(storage.written for storage in recorder.storages.values()):
        return False  # what cannot be undone must not have happened when an assumption is found wrong
    wrong = recorder.record(target_of(torch.Tensor.eq if truth else torch.Tensor.ne), (tensor, 0), {})
    if value.facts.size:
        wrong = recorder.record(target_of(torch.Tensor.reshape), (wrong, ()), {})
    device = value.facts.device
    if device in recorder.violated:
        wrong = recorder.record(target_of(torch.logical_or), (recorder.violated[device], wrong), {})
    recorder.violated[device] = wrong
    return True


def assertion(recorder: Recorder, condition: Any, text: str) -> None:
    """The graph checks a condition on numbers that only it knows."""
    assert recorder.symbols is not None
    target = target_of(torch.ops.aten._assert_scalar.default)
    recorder.tape.append(
        Step(target, [condition, text], {}, graph_values(recorder.symbols, [condition]), read_state(), True)
    )

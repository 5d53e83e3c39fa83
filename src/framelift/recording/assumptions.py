"""What the program asserts of values that only the graph knows: assumed while capturing, and checked when the graph
runs.

Where an assumption proves wrong, the call runs eagerly, which raises what it raises there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from ..bytecode.branches import unless_it_raises
from ..graph.fx.assumption_checks import check_assumptions
from ..graph.fx.tape import Step
from ..graph.fx.targets import target_of
from ..graph.metadata.fakes import UNKNOWN
from ..graph.state.torch_state import read_state
from ..graph.symbols.number_nodes import graph_values
from ..vocabulary.own_code import is_own_code

if TYPE_CHECKING:
    from ..graph.symbols.numbers import Bool
    from .recorder import Recorder

__all__ = ["assertion", "assume", "assume_of_numbers", "check_so_far", "truth_that_goes_on"]


def truth_that_goes_on() -> bool | None:
    """The truth that the program tests now, where the other side of the branch only raises; None where it does not."""
    frame: Any = sys._getframe()
    while frame is not None and is_own_code(frame.f_code):
        frame = frame.f_back
    return None if frame is None else unless_it_raises(frame.f_code, frame.f_lasti)


def _may_assume(recorder: Recorder) -> bool:
    """What cannot be undone must not have happened when an assumption is found wrong; a body's results are not the
    graph's.
    """
    return (
        not recorder.tape_is_a_body()
        and recorder.options.assumes
        and recorder.stays != UNKNOWN
        and not any(storage.written for storage in recorder.storages.values())
    )


def assume(recorder: Recorder, tensor: torch.Tensor, truth: bool) -> bool:
    """Go on as if the truth of `tensor` were this; the graph checks whether it was.  False: not possible here."""
    if recorder.callbacks.assume_otherwise is not None:
        return bool(recorder.callbacks.assume_otherwise(tensor, truth))
    value = recorder.value_of(tensor)
    if any(length != 1 for length in value.facts.size) or not _may_assume(recorder):
        return False
    wrong = recorder.record(target_of(torch.Tensor.eq if truth else torch.Tensor.ne), (tensor, 0), {})
    if value.facts.size:
        wrong = recorder.record(target_of(torch.Tensor.reshape), (wrong, ()), {})
    device = value.facts.device
    if device in recorder.violated:
        wrong = recorder.record(target_of(torch.logical_or), (recorder.violated[device], wrong), {})
    recorder.violated[device] = wrong
    return True


def check_so_far(recorder: Recorder) -> bool:
    """Something that cannot be undone comes next: the graph looks at what was assumed before it gets there.

    False: not possible here.  Only a graph that is run as it is keeps the order, and draws would have to be put back.
    """
    if recorder.assumed or recorder.stays or recorder.tape_is_a_body() or not recorder.options.is_plain:
        return False
    wrong = [recorder.value_of(one) for one in recorder.violated.values()]
    recorder.tape.append(Step(target_of(check_assumptions), list(wrong), {}, wrong, read_state(), True, 0))
    recorder.violated.clear()
    return True


def assume_of_numbers(recorder: Recorder, condition: Bool) -> bool | None:
    """The truth of a comparison of numbers that only the graph knows, where the program raises otherwise; the graph
    checks it.  None: not possible here.
    """
    truth = truth_that_goes_on() if recorder.callbacks.assume_otherwise is None and _may_assume(recorder) else None
    if truth is None:
        return None
    held = condition if truth else condition.home.negated(condition)
    condition.home.expect(held)
    assertion(recorder, held, "the program raises otherwise")
    recorder.assumed = True
    return truth


def assertion(recorder: Recorder, condition: Any, text: str) -> None:
    """The graph checks a condition on numbers that only it knows."""
    assert recorder.symbols is not None
    target = target_of(torch.ops.aten._assert_scalar.default)
    recorder.tape.append(
        Step(target, [condition, text], {}, graph_values(recorder.symbols, [condition]), read_state(), True)
    )

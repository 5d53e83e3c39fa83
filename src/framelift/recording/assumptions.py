"""Assertions of the program about values that only the graph knows: assumed while capturing, checked when the graph
runs.

Where an assumption proves wrong, the call runs eagerly, which raises what it raises there.  What the graph wrote to
inputs by then is taken back first, from copies made before every run: where they are small, or where a graph break
would be an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from ..bytecode.branches import after_call, unless_it_raises
from ..graph.fx.node_functions import check_assumptions
from ..graph.fx.targets import Target, target_of
from ..graph.fx.values import Step, Storage, Value
from ..graph.metadata.cache import Outcome
from ..graph.metadata.fakes import UNKNOWN
from ..graph.metadata.live_fakes import LiveOutcome
from ..graph.state.torch_state import read_state
from ..graph.symbols.number_nodes import graph_values
from ..graph.symbols.numbers import Bool
from ..torch_ports.operators import assert_scalar
from ..vocabulary.own_code import asking, is_own_code
from ..vocabulary.reasons import Interrupt
from .session import Recorder

#: inputs of so many bytes together are copied before every run; larger ones where the program would see the difference
SMALL = 1 << 16


def truth_that_continues() -> bool | None:
    """The truth that the program tests now, where the other side of the branch only raises; None where it does not.

    The frame that tests is the innermost of the program's that does not just return what it called.
    """
    frame = asking()
    if frame is None or after_call(frame.f_code, frame.f_lasti) and "bool" not in frame.f_code.co_names:
        return None  # other functions may turn the truth round
    while frame is not None and (
        is_own_code(frame.f_code) or after_call(frame.f_code, frame.f_lasti) == "RETURN_VALUE"
    ):
        frame = frame.f_back
    return None if frame is None else unless_it_raises(frame.f_code, frame.f_lasti)


def _may_assume(recorder: Recorder) -> bool:
    """Return whether a wrong assumption may be found later.

    Nothing may have happened by then that cannot be undone; a body's results are not the graph's.
    """
    return (
        not recorder.tape_is_a_body()
        and not recorder.knowledge.without_assumptions
        and recorder.effect_level != UNKNOWN
        and _may_undo(recorder)
    )


def _may_undo(recorder: Recorder, more: Sequence[Value] = ()) -> bool:
    """Return whether writes to inputs, and to `more` of them, can be taken back where an assumption is found wrong; if
    so, they will be.
    """
    written = [one for one in recorder.storages.values() if one.written or any(value.storage is one for value in more)]
    if written and (
        recorder.gradients.reached  # gradients were added to
        or recorder.gradients.exchanged
        or any(storage.wrapped or storage.shared or _has_history(storage) for storage in written)
        or not (recorder.policy.fullgraph or sum(map(_size_of, written)) <= SMALL)
    ):
        return False
    recorder.assumptions.undoes = recorder.assumptions.undoes or bool(written)
    return True


def _has_history(storage: Storage) -> bool:
    """Return whether autograd knows how an input came about: a write changes that for good."""
    return any(value.facts.requires_grad and not value.facts.is_leaf for value in storage.values)


def _size_of(storage: Storage) -> int:
    tensors = [value.external for value in storage.values if value.external is not None]
    return max(_core.of_tensor(one, "untyped_storage").nbytes() for one in tensors)


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
    if device in recorder.assumptions.violated:
        wrong = recorder.record(target_of(torch.logical_or), (recorder.assumptions.violated[device], wrong), {})
    recorder.assumptions.violated[device] = wrong
    recorder.assumptions.any = True
    return True


def before_effect(recorder: Recorder, target: Target, outcome: Outcome | LiveOutcome, found: Sequence[Value]) -> None:
    """An operation comes after an assumption.  Where it has an effect, the graph looks at what was assumed before it
    gets there, or the effect is taken back; where neither is possible, nothing may be assumed.
    """
    written = [found[i] for i in outcome.written if found[i].storage.external]
    if outcome.effect_level != UNKNOWN and not written or _check_so_far(recorder):
        return
    if outcome.effect_level != UNKNOWN and not _makes_history(found) and _may_undo(recorder, written):
        return
    stop = Interrupt("tensor-bool", f"and {target.name}, which cannot be undone, comes after it")
    stop.first = recorder.knowledge.lesson("without_assumptions")
    raise stop


def _makes_history(found: Sequence[Value]) -> bool:
    return torch.is_grad_enabled() and any(value.facts.requires_grad for value in found)


def _check_so_far(recorder: Recorder) -> bool:
    """The graph looks here at what was assumed.

    False: not possible.  Only a graph that is run as it is keeps the order, and draws would have to be put back.
    """
    if (
        recorder.assumptions.assumed
        or recorder.effect_level
        or recorder.assumptions.undoes
        or recorder.tape_is_a_body()
    ):
        return False
    if not recorder.runs_as_is():
        return False
    wrong = [recorder.value_of(one) for one in recorder.assumptions.violated.values()]
    recorder.tape.append(Step(target_of(check_assumptions), list(wrong), {}, wrong, read_state(), True, 0))
    recorder.assumptions.violated.clear()
    return True


def assume_of_numbers(recorder: Recorder, condition: Bool) -> bool | None:
    """The truth of a comparison of numbers that only the graph knows, where the program raises otherwise; the graph
    checks it.  None: not possible here.
    """
    truth = truth_that_continues() if recorder.callbacks.assume_otherwise is None and _may_assume(recorder) else None
    if truth is None:
        return None
    held = condition if truth else condition.home.negated(condition)
    condition.home.expect(held)
    assertion(recorder, held, "the program raises otherwise")
    recorder.assumptions.any = recorder.assumptions.assumed = True
    return truth


def assertion(recorder: Recorder, condition: Any, text: str) -> None:
    """The graph checks a condition on numbers that only it knows."""
    assert recorder.symbols is not None
    target = target_of(assert_scalar.default)
    recorder.tape.append(
        Step(target, [condition, text], {}, graph_values(recorder.symbols, [condition]), read_state(), True)
    )

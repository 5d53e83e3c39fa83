"""Results without the usual autograd history: leaves made inside, histories that the program differentiated itself, or
that lead to no input.

Backends give every result a history that leads to the graph's inputs, or none.  So the graph gives such results
without one, and what it returned becomes what it is in eager mode afterwards (graph/analysis/replay.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from ..graph.analysis.in_place import first_of, is_data
from ..graph.analysis.replay import OWN
from ..graph.fx.targets import Target, target_of
from ..graph.fx.values import Value
from ..graph.metadata.cache import Many, New, Outcome
from ..graph.state.torch_state import State
from ..torch_ports.autograd import get_creation_meta
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt
from .session import Recorder

_LEAF = "a leaf made inside, as a result beside others that may depend on it,"
_VIEWED = "a view of a tensor whose requires_grad was switched inside, as a result,"
_SWITCHED = "a result that depends on a tensor whose requires_grad was switched on inside"


def may_make_leaf(recorder: Recorder) -> None:
    """Interrupt where a leaf made now was found to be a result beside others that depend on it."""
    if recorder.knowledge.leaves_eagerly:
        raise Interrupt("torch-operation", _LEAF)


def may_switch(recorder: Recorder) -> None:
    """Interrupt where a view of a tensor whose requires_grad is switched now was found to be a result."""
    if recorder.knowledge.switches_eagerly:
        raise Interrupt("torch-operation", _VIEWED)


def is_leaf_view(value: Value) -> bool:
    """A view of a tensor that requires grad, made without grad mode: a leaf that requires grad and has no history.

    What is computed from it requires grad as well, and its history leads nowhere.
    """
    facts = value.facts
    return value.external is None and facts is not None and facts.requires_grad and facts.is_leaf and not value.rooted


def is_certain(recorder: Recorder, value: Value) -> bool:
    """Return whether such a view is known to require grad: made from a view, that is up to that one's base."""
    if recorder.gradients.exchanged:
        return False
    inputs = [one for one in value.storage.values if one.external is not None]
    if len(inputs) == 1 and recorder.callbacks.ask is not None:
        return recorder.callbacks.ask(inputs[0].stand_in, is_view) is False
    return not inputs and not any(one.rooted or one.view == "detached" for one in value.storage.values)


def is_captured(recorder: Recorder, value: Value) -> bool:
    """Return whether such a view may be an operand or a result: compilers drop the histories that lead nowhere.

    Exported graphs keep the calls that turn grad mode off and on.
    """
    return recorder.policy.keeps_all or recorder.runs_as_is() and is_certain(recorder, value)


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd knows a tensor as a view."""
    return bool(_core.of_tensor(tensor, "_is_view"))


def state_of_write(recorder: Recorder, target: Target, outcome: Outcome, found: list[Value], state: State) -> State:
    """The state in which a graph does an operation that writes.

    What writes to an input that requires grad by way of `detach` or `data` is done without grad mode: compilers would
    else write it back to the input itself, which autograd refuses where that is a view.  Interrupt where autograd
    would not know such an input's history any more.
    """
    if not state.grad or recorder.callbacks.ask is None or recorder.policy.keeps_all or recorder.tape_is_a_body():
        return state
    inputs = {
        id(one): one
        for value in (found[i] for i in outcome.written)
        if (first := first_of(value)) is not None and first.view == "detached"
        for one in value.storage.values
        if one.external is not None and one.facts.requires_grad
    }
    if not inputs or recorder.in_transform() or recorder.runs_as_is():
        return state
    gains = any(value.facts.requires_grad for value in found)
    if any(recorder.callbacks.ask(one.stand_in, is_view if gains else is_fickle) for one in inputs.values()):
        raise Interrupt("torch-operation", f"{target.name}, which writes to memory of a view that autograd protects")
    return state if gains else state._replace(grad=False)


def is_fickle(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a view which autograd refuses to go on with once its memory is written to."""
    return is_view(tensor) and get_creation_meta(tensor).name != "DEFAULT"


def check_leaf_views(recorder: Recorder, target: Target, outcome: Outcome, found: list[Value]) -> None:
    """Interrupt where a view made without grad mode is written, or viewed again, with it: stand-ins know too little."""
    for i, value in enumerate(found):
        if is_leaf_view(value) and (
            not is_captured(recorder, value)
            or i in outcome.written
            or _views(outcome.result, i)
            or any(i == place for place, _ in outcome.changes)
        ):
            raise Interrupt("torch-operation", f"{target.name} on a view that was made without grad mode")


def _views(result: Any, index: int) -> bool:
    if type(result) is Many:
        return any(_views(item, index) for item in result.items)
    return type(result) is New and result.source == index and result.facts.requires_grad


def is_free(value: Value) -> bool:
    """Return whether it requires grad by itself, though it shares memory: plain views follow their base."""
    return value.view == "detached" or value.facts is not None and value.facts.requires_grad and not value.facts.is_leaf


def _rather_plain(recorder: Recorder, what: str, lesson: str = "leaves_eagerly") -> Interrupt:
    """An interrupt; in the next rehearsal, there is one where it began: `lesson` is a field of `CodeKnowledge`."""
    stop = Interrupt("torch-operation", what)
    stop.first = recorder.knowledge.lesson(lesson)
    return stop


def without_histories(recorder: Recorder, outputs: list[Any]) -> tuple[list[Any], tuple[tuple[int, str], ...]]:
    """The outputs, those without the usual history replaced by what has none; and which these are."""
    switched = {id(name.storage) for names in recorder.gradients.flagged.values() for name in names.values()}
    if any(
        type(out) is Value and out.external is None and id(out.storage) in switched and not is_free(out)
        for out in outputs
    ):
        raise _rather_plain(recorder, _VIEWED, "switches_eagerly")
    others = tuple(_other_variables(outputs))
    roots = list({id(value): value for step in recorder.tape for value in step.inputs if value.rooted}.values())
    leaves = [(i, out) for i, out in enumerate(outputs) if type(out) is Value and out.rooted and out.external is None]
    if not leaves and not roots and not recorder.gradients.differentiated and not recorder.gradients.differentiable:
        return outputs, others
    if any(out.gathered for _, out in leaves):
        raise Interrupt("torch-operation", "a leaf made inside whose gradient was gathered inside, as a result,")
    with DisableTorchFunction():
        fates = _fates(recorder, outputs, [root for root in roots if root.facts.requires_grad])
        if any(out.facts.requires_grad for _, out in leaves) and any(fate != "spent" for fate in fates.values()):
            raise _rather_plain(recorder, _LEAF)
        # compilers do not differentiate a backward
        if recorder.gradients.differentiable and not recorder.runs_as_is() and "" in fates.values():
            raise Interrupt("torch-operation", "a result of a backward that can be differentiated itself")
        changed = {i: fate for i, fate in fates.items() if fate}
        changed |= {i: out.rooted if out.facts.requires_grad else f"frozen {out.rooted}" for i, out in leaves}
        detach = target_of(torch.Tensor.detach)
        return [
            recorder.value_of(recorder.record(detach, (out.stand_in,), {}, keep=True)) if i in changed else out
            for i, out in enumerate(outputs)
        ], (*others, *changed.items())


def _other_variables(outputs: Sequence[Any]) -> list[tuple[int, str]]:
    """Which results are what `detach` and `data` gave of memory made inside, or views of it, which compilers give as
    views made without grad mode, that refuse writes; those of an input's `data`, which compilers give with the input's
    counter of writes; and which of them the program gave a history.
    """
    made = [(i, out) for i, out in enumerate(outputs) if type(out) is Value and out.external is None]
    rows = []
    for i, out in made:
        first = first_of(out)
        if _is_mixed_up(out, [other for _, other in made]):
            rows.append((i, OWN))
        elif first is not None and first.view == "detached" and not (first.rooted or out.rooted):
            if out.facts.requires_grad or not out.storage.external or is_data(first):
                rows.append((i, OWN if out.facts.requires_grad else "data" if is_data(first) else "detached"))
    return rows


def _is_mixed_up(out: Value, results: list[Value]) -> bool:
    """Return whether AOTAutograd (seen in torch 2.13) would give a result of other elements, or of other memory.

    One without a history it makes of a result that has one and lies in memory like it, by all the views of either: such
    a result must be no view.  One of several views that an operation made of an input does not follow the input's
    writes.
    """
    if not out.facts.requires_grad:
        return not out.storage.external and any(
            other.storage is out.storage
            and other.view
            and other.facts.requires_grad
            and (other.facts.size, other.facts.stride) == (out.facts.size, out.facts.stride)
            for other in results
        )
    if not (out.storage.external and out.storage.written):
        return False
    value: Value | None = out
    while value is not None and value.view != "multiple":
        value = next((one for one in value.step.inputs if one.storage is value.storage), None) if value.step else None
    return value is not None


def _fates(recorder: Recorder, outputs: Sequence[Any], roots: list[Value]) -> dict[int, str]:
    """For each output with a history: whether it was gone through, or leads to nothing outside; "" if neither."""
    places = [
        i
        for i, out in enumerate(outputs)
        if type(out) is Value and out.facts.requires_grad and out.external is None and not out.rooted
    ]
    used = {id(value) for step in recorder.tape for value in step.inputs}
    leaves = [value for value in recorder.inputs() if value.facts.requires_grad and id(value) in used]
    if not places or not (leaves or roots):
        return {}

    def fate(result: torch.Tensor, ends: list[torch.Tensor]) -> str:
        try:
            grads = torch.autograd.grad(result, ends, torch.empty_like(result), retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            if says_second_time(error):
                return "spent"
            # it cannot be differentiated, and says why when somebody tries; which leaves it leads to is not known
            if roots:
                raise _rather_plain(recorder, _LEAF) from None
            return ""
        if any(grad is not None and root.external is not None for grad, root in zip(grads[len(leaves) :], roots)):
            raise _rather_plain(recorder, _SWITCHED)
        return "rootless" if all(grad is None for grad in grads[: len(leaves)]) else ""

    def then(results: list[Any]) -> dict[int, str]:
        return {place: fate(result, results[len(places) :]) for place, result in zip(places, results)}

    found: dict[int, str] = recorder.replay("a result", [*(outputs[i] for i in places), *leaves, *roots], then)
    return found


# ---- A fact of torch (seen in 2.11 to 2.13): going through a history that was freed raises a RuntimeError ----


_SECOND_TIME = "backward through the graph a second time"


def says_second_time(error: RuntimeError) -> bool:
    """Return whether torch raised this because a history was gone through already."""
    return _SECOND_TIME in str(error)

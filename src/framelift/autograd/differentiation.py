"""Differentiation by the program itself: `torch.autograd.grad`, `Tensor.backward` and `torch.autograd.backward` in
captured code.

Each is a node that calls `torch.autograd.grad`.  What it gives, and to which leaves, is asked of autograd over a
replay of the tape.  A backward then adds to the leaves' `.grad`, as the engine does.  Histories that begin
outside, and hooks on leaves, stay plain Python's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..calls.call_tables import substitute
from ..graph.fx.values import AFTER_DATA, Storage, Value
from ..graph.metadata.facts import Facts, facts_of, new_stand_in
from ..higher_order.operators import record_step
from ..recording.tensor_writes import store_attribute
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from .tensor_hooks import REGISTERING, without_gradients

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_NAME = "torch.autograd.grad"


def _tensors(recorder: Recorder, given: Any, what: str) -> list[Any]:
    """A tensor or a sequence of them, as values; None stays None."""
    found = [given] if recorder.is_stand_in(given) else list(given) if is_a(given, (list, tuple)) else [given]
    if any(not (one is None or recorder.is_stand_in(one)) for one in found):
        raise Interrupt("torch-operation", f"{_NAME} with {what} that are no tensors")
    return [None if one is None else recorder.value_of(one) for one in found]


def _check(session: Session) -> None:
    recorder = session.recorder
    if recorder.in_transform() or recorder.tape_is_a_body():
        raise Interrupt("torch-operation", f"{_NAME} inside a function transform or a higher-order operator")
    if recorder.modes or recorder.overrides:
        raise Interrupt("torch-operation", f"{_NAME} with a mode or a tensor subclass")
    if recorder.gradients.exchanged:
        raise Interrupt("torch-operation", AFTER_DATA)
    if any(effect.kind == "call" and effect.owner in REGISTERING for effect in session.effects):
        raise Interrupt("torch-operation", f"{_NAME} after hooks were registered")


@scope
def _by_results(recorder: Recorder, inputs: Any) -> Iterator[None]:
    """Around a differentiation with respect to `inputs`.  Where it is not captured and they are results of the frame,
    all of it is plain Python's: the results of a graph of a compiler's have one history, and none of them leads by
    another.
    """
    try:
        yield
    except Interrupt as stop:
        given = [one for one in (inputs if is_a(inputs, (list, tuple)) else [inputs]) if recorder.is_stand_in(one)]
        values = map(recorder.value_of, given)
        stop.run_eagerly = (
            stop.run_eagerly
            or not recorder.runs_as_is()
            and any(value.external is None and not value.facts.is_leaf for value in values)
        )
        raise


def _required(recorder: Recorder) -> list[Value]:
    """The values without a history inside that require grad: inputs, and leaves made inside."""
    used = {id(value): value for step in recorder.tape for value in step.inputs}
    return [
        value
        for value in used.values()
        if value.facts.requires_grad and (value.external is not None or value.facts.is_leaf)
    ]


def _asked(
    recorder: Recorder, outputs: list[Value], wanted: list[Value], grads: list[Any], options: dict[str, Any]
) -> list[Facts | None]:
    """The facts of the gradients, None where there is none; interrupts where a history continues outside."""
    outside = [
        value for value in _required(recorder) if not value.facts.is_leaf and (len(wanted) > 1 or value not in wanted)
    ]
    given = [one for one in grads if one is not None]

    def then(results: list[Any]) -> list[Facts | None]:
        ends, rest = results[: len(outputs)], results[len(outputs) :]
        starts, begun, given = (
            rest[: len(wanted)],
            rest[len(wanted) : len(wanted) + len(outside)],
            iter(rest[len(wanted) + len(outside) :]),
        )
        seeds = [None if one is None else next(given) for one in grads]
        if begun and any(
            one is not None for one in torch.autograd.grad(ends, begun, seeds, retain_graph=True, allow_unused=True)
        ):
            raise Interrupt("torch-operation", f"{_NAME} through a history that begins outside")
        return [None if one is None else facts_of(one) for one in torch.autograd.grad(ends, starts, seeds, **options)]

    return recorder.replay(_NAME, [*outputs, *wanted, *outside, *given], then)


def _gradients(
    session: Session,
    outputs: list[Value],
    wanted: list[Value],
    grads: list[Any],
    options: dict[str, Any],
    found: list[Facts | None],
) -> list[Any]:
    """Record one node that gives gradients like `found`; stand-ins for them, None where there is none."""
    recorder = session.recorder
    if not options.get("allow_unused"):
        options = {name: value for name, value in options.items() if name != "allow_unused"}
    inputs = list(dict.fromkeys([*outputs, *wanted, *(one for one in grads if one is not None)]))
    args: list[Any] = [list(outputs), list(wanted)] + ([list(grads)] if any(one is not None for one in grads) else [])
    step = record_step(recorder, torch.autograd.grad, args, options, inputs)
    step.effect_level = 0
    recorder.gradients.differentiated = recorder.gradients.differentiated or not (
        options.get("retain_graph") or options.get("create_graph")
    )
    recorder.gradients.differentiable = recorder.gradients.differentiable or bool(options.get("create_graph"))
    made: list[Any] = []
    for i, facts in enumerate(found):
        if facts is None:
            made.append(None)
            continue
        with DisableTorchFunction():
            value = Value(new_stand_in(facts), facts, Storage(external=False), "custom")
        value.step, value.path, value.exact = step, (i,), False
        made.append(recorder.adopt(value))
    return made


def _seeds(recorder: Recorder, given: Any, count: int) -> list[Any]:
    return [None] * count if given is None else _tensors(recorder, given, "gradients")


@substitute(torch.autograd.grad)
def _grad(
    session: Session,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    only_inputs: Any = True,
    allow_unused: Any = None,
    is_grads_batched: Any = False,
    materialize_grads: Any = False,
) -> Any:
    flags = {
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
    }
    recorder = session.recorder
    with _by_results(recorder, inputs):
        _check(session)
        if is_grads_batched or not only_inputs or any(type(flag) not in (bool, type(None)) for flag in flags.values()):
            raise Interrupt("torch-operation", f"{_NAME} with unusual options")
        ends, wanted = _tensors(recorder, outputs, "outputs"), _tensors(recorder, inputs, "inputs")
        if None in ends or None in wanted or not wanted:
            raise Interrupt("torch-operation", f"{_NAME} of nothing")
        options = {name: flag for name, flag in flags.items() if flag}
        seeds = _seeds(recorder, grad_outputs, len(ends))
        with DisableTorchFunction():
            found = _asked(recorder, ends, wanted, seeds, options)
        return tuple(_gradients(session, ends, wanted, seeds, options, found))


@substitute(torch.Tensor.backward)
def _tensor_backward(
    session: Session,
    self: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    inputs: Any = None,
) -> None:
    _backward(session, [self], gradient, retain_graph, create_graph, None, inputs)


@substitute(torch.autograd.backward)
def _backward(
    session: Session,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    if grad_variables is not None:
        raise Interrupt("torch-operation", "torch.autograd.backward with grad_variables")
    with _by_results(session.recorder, inputs):
        _add_gradients(session, tensors, grad_tensors, retain_graph, create_graph, inputs)


def _add_gradients(
    session: Session, tensors: Any, gradients: Any, retain_graph: Any, create_graph: Any, inputs: Any
) -> None:
    recorder = session.recorder
    _check(session)
    if create_graph or type(retain_graph) not in (bool, type(None)):
        raise Interrupt("torch-operation", "a backward that can be differentiated itself")
    outputs = _tensors(recorder, tensors, "tensors")
    if None in outputs:
        raise Interrupt("torch-operation", f"{_NAME} of nothing")
    leaves = _receivers(recorder, inputs)
    seeds = _seeds(recorder, gradients, len(outputs))
    with DisableTorchFunction():
        found = _asked(recorder, outputs, leaves, seeds, {"retain_graph": True, "allow_unused": True})
    leaves = [leaf for leaf, facts in zip(leaves, found) if facts is not None]
    found = [facts for facts in found if facts is not None]
    if any(recorder.value_of(leaf.stand_in) is not leaf for leaf in leaves):
        raise Interrupt("torch-operation", "a backward to a tensor whose requires_grad was switched off meanwhile")
    reached = [leaf.external for leaf in leaves if leaf.external is not None]
    if _core.hooked(tuple(reached)):
        raise Interrupt("torch-operation", "a backward to tensors that have hooks")
    recorder.gradients.reached += reached
    made = (
        _gradients(session, outputs, leaves, seeds, {"retain_graph": True} if retain_graph else {}, found)
        if leaves
        else []
    )
    with without_gradients():
        for leaf, grad in zip(leaves, made):
            _accumulate(session, leaf, grad)


def _receivers(recorder: Recorder, inputs: Any) -> list[Value]:
    """The leaves that a backward may give a gradient to."""
    if inputs is None:
        found = [value for value in _required(recorder) if value.facts.is_leaf]
    else:
        found = list(dict.fromkeys(_tensors(recorder, inputs, "inputs")))
    if not found or any(value is None or not value.facts.requires_grad or not value.facts.is_leaf for value in found):
        raise Interrupt("torch-operation", "a backward that reaches no leaves")
    return found


def _accumulate(session: Session, leaf: Value, grad: torch.Tensor) -> None:
    """`leaf.grad` gets memory of its own, laid out as the leaf is; or what is there is added to."""
    recorder, tensor = session.recorder, leaf.stand_in
    there = session.load_tensor(tensor, "grad")
    if there is not None:
        recorder.call(torch.Tensor.add_, (there, grad), {})
        return
    kept = (
        recorder.call(torch.clone, (grad,), {"memory_format": torch.contiguous_format})
        if leaf.facts.is_contiguous()
        else recorder.call(
            torch.Tensor.copy_, (recorder.call(torch.empty_like, (tensor,), {"requires_grad": False}), grad), {}
        )
    )
    if leaf.external is not None:
        store_attribute(session, tensor, "grad", kept)
    else:
        session.set_pending(tensor, "grad", kept)
        leaf.gathered = True

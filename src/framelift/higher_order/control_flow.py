"""Control flow as operators: cond, while_loop, map, scan, associative_scan; strict_mode, hints_wrapper and print.

Each body is rehearsed once over operands of its own; tensors it takes from around become operands too.  A body
that changes anything outside of itself, or gives back its operands, is an error: these operators have no meaning
outside of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from .. import _core
from .._core import is_a
from ..graph.fx.values import Body, Value
from ..graph.metadata.facts import Facts
from ..graph.symbols.number_nodes import graph_values
from ..graph.symbols.numbers import NUMBERS, Bool
from ..vocabulary.class_reads import name_of
from ..vocabulary.reasons import Interrupt
from .bodies import Rehearsed, Surroundings, fresh, kept_of, values_in
from .operators import bound, fresh_results, never_plain, operator, pure_body, record_step, refuse

if TYPE_CHECKING:
    from ..recording.recorder import Recorder
    from ..rehearsal.session import Session

__all__: list[str] = []


class _Outputs:
    """What a body returned, flat, and checked to be tensors of its own."""

    def __init__(self, recorder: Recorder, name: str, body: Rehearsed) -> None:
        self.body = body
        self.leaves, self.spec = pytree.tree_flatten(body.result)
        if not self.leaves or not all(recorder.is_stand_in(leaf) for leaf in self.leaves):
            raise refuse(name, "a body must return tensors, or a structure of tensors")
        self.values = [recorder.value_of(leaf) for leaf in self.leaves]
        self.facts = [value.facts for value in self.values]
        inside = {id(step) for step in body.tape}
        storages = [value.storage for value in self.values]
        if len(set(map(id, storages))) < len(storages) or any(
            id(v.step) not in inside for s in storages for v in s.values
        ):
            raise refuse(
                name,
                "a body returns a tensor that shares memory with another result or with something outside "
                "of it (aliasing); "
                "replace `return x` with `return x.clone()`",
            )


def _agree(name: str, what: str, one: Sequence[Facts], other: Sequence[Facts]) -> None:
    for a, b in zip(one, other):
        if (a.size, a.dtype, a.device) != (b.size, b.dtype, b.device):
            raise refuse(name, f"{what} differ in metadata: {a} and {b}")


def _result_facts(facts: Sequence[Facts], inputs: Sequence[Value]) -> list[Facts]:
    """Of results that autograd tracks where any input is tracked."""
    tracked = torch._C.is_grad_enabled() and any(value.facts.requires_grad for value in inputs)
    made = []
    for one in facts:
        grad = tracked and (one.dtype.is_floating_point or one.dtype.is_complex)
        made.append(one.but(requires_grad=grad, is_leaf=not grad, is_conj=False, is_neg=False))
    return made


def _operand(recorder: Recorder, value: Value, name: str) -> Any:
    facts = value.facts
    return fresh(recorder, facts.but(is_leaf=False) if facts.requires_grad else facts, name, value.exact)


def _slice(recorder: Recorder, value: Value, name: str) -> Any:
    """One step of an input along its first dimension."""
    facts = value.facts.but(size=value.facts.size[1:], stride=value.facts.stride[1:])
    return fresh(recorder, facts.but(is_leaf=False) if facts.requires_grad else facts, name, exact=False)


def _stacked(facts: Facts, count: int) -> Facts:
    size = torch.Size((count, *facts.size))
    stride, step = [], 1
    for length in reversed(size):
        stride.append(step)
        step *= max(length, 1)
    return facts.but(size=size, stride=tuple(reversed(stride)))


def _around(recorder: Recorder, *parts: tuple[Rehearsed, Sequence[Value], Any]) -> list[Value]:
    """The values that bodies take from around them, each once."""
    return list(
        dict.fromkeys(v for body, operands, outputs in parts for v in body.close(recorder, operands, outputs)[1])
    )


@operator("cond")
@never_plain("torch.cond")
def _cond(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> None: ...

    pred, true_fn, false_fn, operands = bound(signature, args, kwargs)
    name, recorder = "torch.cond", session.recorder
    if type(pred) in (bool, int, float, *NUMBERS) and not (type(pred) is Bool and session.exporting):
        # decided while capturing, so the other branch is not there
        return _core.captured(true_fn if pred else false_fn, tuple(operands), None)
    if type(pred) is not Bool and not recorder.is_stand_in(pred):
        raise refuse(name, f"Expected pred to be bool or tensor, but got {name_of(type(pred))}")
    decides = pred if type(pred) is Bool else recorder.value_of(pred)
    deciding = graph_values(recorder.with_symbols(), [pred]) if type(pred) is Bool else [decides]
    if type(pred) is not Bool and decides.facts.size.numel() != 1:
        raise refuse(name, f"Expected pred to be a tensor of one element, but got {decides.facts}")
    if not is_a(operands, (tuple, list)):
        raise refuse(name, f"Expected operands to be a tuple or a list, but got {name_of(type(operands))}")
    if (
        type(pred) is not Bool
        and recorder.in_transform()
        and recorder.live.ask(torch._C._functorch.is_batchedtensor, decides)
    ):
        return _both(session, name, pred, (true_fn, false_fn), tuple(operands))
    branches = [_Outputs(recorder, name, pure_body(session, name, fn, tuple(operands))) for fn in (true_fn, false_fn)]
    if branches[0].spec != branches[1].spec:
        raise refuse(name, f"the branches return different structures: {branches[0].spec} and {branches[1].spec}")
    _agree(name, "the branches' results", branches[0].facts, branches[1].facts)
    given = values_in(recorder, pytree.tree_leaves(operands))
    around = _around(recorder, *((b.body, given, tuple(b.leaves)) for b in branches))
    bodies = [b.body.close(recorder, given, tuple(b.leaves), around)[0] for b in branches]
    inputs = [*given, *around]
    step = record_step(
        recorder,
        callable_,
        [decides, Body(bodies[0], "cond_true"), Body(bodies[1], "cond_false"), tuple(inputs)],
        {},
        [*deciding, *inputs],
        any(b.body.has_effect for b in branches),
    )
    exact = [
        a.exact and b.exact and a.facts.stride == b.facts.stride for a, b in zip(branches[0].values, branches[1].values)
    ]
    return pytree.tree_unflatten(
        fresh_results(recorder, step, _result_facts(branches[0].facts, inputs), exact), branches[0].spec
    )


def _both(session: Session, name: str, pred: Any, branches: tuple[Any, Any], operands: tuple[Any, ...]) -> Any:
    """Another predicate for each element of a vmap: torch's rule is to compute both branches and choose."""
    recorder = session.recorder
    around, written, results = Surroundings(session, branches, *operands), len(recorder.written), []
    for branch in branches:
        results.append(pytree.tree_flatten(_core.captured(branch, operands, None)))
    changed = around.changed() or (len(recorder.written) > written and "a tensor")
    if changed:
        raise Interrupt("body-effect", f"a body of {name} ({changed})")
    (one, spec), (other, other_spec) = results
    if spec != other_spec:
        raise refuse(name, f"the branches return different structures: {spec} and {other_spec}")
    if not one or not all(map(recorder.is_stand_in, (*one, *other))):
        raise refuse(name, "a body must return tensors, or a structure of tensors")
    _agree(
        name, "the branches' results", *([recorder.value_of(leaf).facts for leaf in leaves] for leaves in (one, other))
    )
    return pytree.tree_unflatten([recorder.call(torch.where, (pred, a, b), {}) for a, b in zip(one, other)], spec)


@operator("while_loop")
@never_plain("torch.while_loop")
def _while_loop(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()) -> None: ...

    cond_fn, body_fn, carried, additional = bound(signature, args, kwargs)
    name, recorder = "torch.while_loop", session.recorder
    if not carried or not all(recorder.is_stand_in(x) for x in (*carried, *additional)):
        raise refuse(name, "only tensors can be carried from step to step")
    start = [recorder.value_of(x) for x in carried]
    operands = [[_operand(recorder, value, f"carried_{i}") for i, value in enumerate(start)] for _ in range(2)]
    test = pure_body(session, name, cond_fn, (*operands[0], *additional))
    if not recorder.is_stand_in(test.result) or recorder.value_of(test.result).facts.size.numel() != 1:
        raise refuse(name, "cond_fn must return a boolean tensor of one element")
    step_body = _Outputs(recorder, name, pure_body(session, name, body_fn, (*operands[1], *additional)))
    if len(step_body.leaves) != len(start):
        raise refuse(name, "body_fn must return as many tensors as it is given")
    _agree(name, "what body_fn is given and what it returns", [v.facts for v in start], step_body.facts)
    given = [values_in(recorder, row) for row in operands]
    around = _around(recorder, (test, given[0], test.result), (step_body.body, given[1], tuple(step_body.leaves)))
    bodies = [
        test.close(recorder, given[0], test.result, around)[0],
        step_body.body.close(recorder, given[1], tuple(step_body.leaves), around)[0],
    ]
    step = record_step(
        recorder,
        callable_,
        [Body(bodies[0], "cond_fn"), Body(bodies[1], "body_fn"), tuple(start), tuple(around)],
        {},
        [*start, *around],
        test.has_effect or step_body.body.has_effect,
    )
    facts = _result_facts(step_body.facts, [*start, *around])
    return pytree.tree_unflatten(
        fresh_results(recorder, step, facts, [v.exact for v in step_body.values]), step_body.spec
    )


@operator("map_impl")
@never_plain("torch.map")
def _map(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(f: Any, xs: Any, pos_args: Any = ()) -> None: ...

    function, xs, more = bound(signature, args, kwargs)
    name, recorder = "torch.map", session.recorder
    mapped = [recorder.value_of(x) for x in xs]
    count = mapped[0].facts.size[0]
    slices = [_slice(recorder, value, f"x_{i}") for i, value in enumerate(mapped)]
    outputs = _Outputs(recorder, name, pure_body(session, name, function, (*slices, *more)))
    given = values_in(recorder, slices)
    body, around = outputs.body.close(recorder, given, tuple(outputs.leaves))
    step = record_step(
        recorder,
        callable_,
        [Body(body, "map_body"), list(mapped), list(around)],
        {},
        [*mapped, *around],
        outputs.body.has_effect,
    )
    facts = _result_facts([_stacked(one, count) for one in outputs.facts], [*mapped, *around])
    return pytree.tree_unflatten(fresh_results(recorder, step, facts, [False] * len(facts)), outputs.spec)


@operator("scan")
@never_plain("torch.scan")
def _scan(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> None: ...

    function, init, xs, additional = bound(signature, args, kwargs)
    name, recorder = "torch.scan", session.recorder
    start, scanned = [recorder.value_of(x) for x in init], [recorder.value_of(x) for x in xs]
    count = scanned[0].facts.size[0]
    operands = [
        *(_operand(recorder, v, f"carry_{i}") for i, v in enumerate(start)),
        *(_slice(recorder, v, f"x_{i}") for i, v in enumerate(scanned)),
    ]
    outputs = _Outputs(recorder, name, pure_body(session, name, function, (*operands, *additional)))
    if type(outputs.body.result) is not tuple or len(outputs.body.result) != 2:
        raise refuse(name, "combine_fn must return a pair: the carry and the output")
    _agree(name, "init and the carry that combine_fn returns", [v.facts for v in start], outputs.facts[: len(start)])
    given = values_in(recorder, operands)
    body, around = outputs.body.close(recorder, given, list(outputs.leaves))
    step = record_step(
        recorder,
        callable_,
        [Body(body, "scan_combine"), list(start), list(scanned), list(around)],
        {},
        [*start, *scanned, *around],
        outputs.body.has_effect,
    )
    facts = [*outputs.facts[: len(start)], *(_stacked(one, count) for one in outputs.facts[len(start) :])]
    facts = _result_facts(facts, [*start, *scanned, *around])
    return pytree.tree_unflatten(fresh_results(recorder, step, facts, [False] * len(facts)), outputs.spec)


@operator("associative_scan")
@never_plain("torch.associative_scan")
def _associative_scan(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(combine_fn: Any, xs: Any, additional_inputs: Any = ()) -> None: ...

    function, xs, additional = bound(signature, args, kwargs)
    name, recorder = "torch.associative_scan", session.recorder
    scanned = [recorder.value_of(x) for x in xs]
    operands = [_slice(recorder, v, f"{side}_{i}") for side in ("left", "right") for i, v in enumerate(scanned)]
    outputs = _Outputs(recorder, name, pure_body(session, name, function, (*operands, *additional)))
    _agree(
        name,
        "what combine_fn is given and what it returns",
        [recorder.value_of(x).facts for x in operands[: len(scanned)]],
        outputs.facts,
    )
    body, around = outputs.body.close(recorder, values_in(recorder, operands), list(outputs.leaves))
    step = record_step(
        recorder,
        callable_,
        [Body(body, "associative_combine"), list(scanned), tuple(around)],
        {},
        [*scanned, *around],
        outputs.body.has_effect,
    )
    facts = _result_facts(
        [_stacked(one, v.facts.size[0]) for one, v in zip(outputs.facts, scanned)], [*scanned, *around]
    )
    return pytree.tree_unflatten(fresh_results(recorder, step, facts, [False] * len(facts)), outputs.spec)


@operator("strict_mode")
@never_plain("torch.strict_mode")
def _strict_mode(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(callable: Any, operands: Any) -> None: ...

    function, operands = bound(signature, args, kwargs)
    return _called_once(session, callable_, "torch.strict_mode", function, tuple(operands))


@operator("hints_wrapper")
def _hints_wrapper(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def signature(body_fn: Any, args: Any, kwargs: Any, hints: Any) -> None: ...

    function, operands, keywords, hints = bound(signature, args, kwargs)
    plain = type(keywords) is dict and not keywords and type(hints) is dict and type(operands) in (tuple, list)
    if not plain or any(
        type(key) is not str or type(value) not in (int, float, bool, str) for key, value in hints.items()
    ):
        raise Interrupt("torch-operation", "torch.ops.higher_order.hints_wrapper with arguments that it refuses")
    return _called_once(session, callable_, "hints_wrapper", function, tuple(operands), ({},), {"hints": dict(hints)})


def _called_once(
    session: Session,
    callable_: Any,
    name: str,
    function: Any,
    operands: tuple[Any, ...],
    more: tuple[Any, ...] = (),
    said: dict[str, Any] | None = None,
) -> Any:
    """An operator that is a call of its function.  Its results can be backed by no gradient: torch refuses that."""
    recorder = session.recorder
    outputs = _Outputs(recorder, name, pure_body(session, name, function, operands))
    given = values_in(recorder, pytree.tree_leaves(operands))
    body, around = outputs.body.close(recorder, given, tuple(outputs.leaves))
    inputs = [*given, *around]
    step = record_step(
        recorder,
        callable_,
        [Body(body, f"{callable_.name()}_body"), tuple(inputs), *more],
        dict(said or {}),
        inputs,
        outputs.body.has_effect,
    )
    facts, exact = _result_facts(outputs.facts, inputs), [value.exact for value in outputs.values]
    return pytree.tree_unflatten(fresh_results(recorder, step, facts, exact), outputs.spec)


@operator("print")
def _print(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Text that is printed when the graph runs; the operator exists to be part of one."""
    recorder = session.recorder
    for value in (*args, *kwargs.values()):
        if not recorder.is_stand_in(value) and type(value) not in (str, bool, int, float, type(None), *NUMBERS):
            raise Interrupt("torch-operation", f"torch.ops.higher_order.print of a {name_of(type(value))}")
    (said, named), values = kept_of(recorder, (args, kwargs))
    record_step(recorder, callable_, list(said), dict(named), values, effect=True)

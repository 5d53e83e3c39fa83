"""Control flow as operators: cond, while_loop, map, scan, associative_scan; strict_mode, hints_wrapper and print.

Each body is rehearsed once over operands of its own; tensors it takes from around become operands too.  A body
that changes anything outside of itself, or gives back its operands, is an error: these operators have no meaning
outside of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._core import is_a
from ..graph.fx.values import Body, Step, Storage, Value
from ..graph.metadata.facts import Facts, symbolic_facts
from ..graph.symbols.number_nodes import graph_values
from ..graph.symbols.numbers import NUMBERS, Bool, Float, Int
from ..torch_ports.autograd import is_batchedtensor, is_grad_enabled
from ..torch_ports.graphs import pytree
from ..torch_ports.symbols import ValueRanges, int_oo
from ..torch_ports.tensors import check
from ..vocabulary.class_reads import name_of
from ..vocabulary.reasons import Interrupt
from .bodies import Rehearsed, Surroundings, fresh, kept_of, values_in
from .operators import fresh_results, operator, pure_body, record_step, refuse

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session


class _Outputs:
    """The results of a body, flat, and checked to be tensors of its own; numbers of some types where they may be."""

    def __init__(self, recorder: Recorder, name: str, body: Rehearsed, numbers: tuple[type, ...] = ()) -> None:
        self.body = body
        self.leaves, self.spec = pytree.tree_flatten(body.result)
        if not self.leaves or not all(recorder.is_stand_in(leaf) or type(leaf) in numbers for leaf in self.leaves):
            raise refuse(name, "a body must return tensors, or a structure of tensors")
        self.values = [recorder.value_of(leaf) for leaf in self.leaves if recorder.is_stand_in(leaf)]
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
    tracked = is_grad_enabled() and any(
        value.facts is not None and value.facts.requires_grad
        for value in inputs  # a number has none
    )
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


def _stacked(facts: Facts, count: int | torch.SymInt) -> Facts:
    stride, step = [], 1
    for length in reversed(facts.size):
        stride.append(step)
        step *= max(length, 1)
    dtype, device, size, _, *flags = facts.key()
    return symbolic_facts(dtype, device, (count, *size), (step, *reversed(stride)), *flags)


def _around(recorder: Recorder, *parts: tuple[Rehearsed, Sequence[Value], Any]) -> list[Value]:
    """The values that bodies take from around them, each once."""
    return list(
        dict.fromkeys(
            v for body, operands, outputs in parts for v in body.close(recorder, operands, outputs, takes=(Int,))[1]
        )
    )


@operator("cond", "torch.cond")
def _cond(session: Session, callable_: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    name, recorder = "torch.cond", session.recorder
    if type(pred) in (bool, int, float, Int, Float):
        # decided while capturing, so the other branch is not there
        return _core.captured(true_fn if pred else false_fn, tuple(operands), None)
    if type(pred) is Bool and not session.policy.exporting:
        pred = recorder.call(torch.scalar_tensor, (pred,), {"dtype": torch.bool})  # Inductor knows no other way
    if type(pred) is not Bool and not recorder.is_stand_in(pred):
        raise refuse(name, f"Expected pred to be bool or tensor, but got {name_of(type(pred))}")
    decides = pred if type(pred) is Bool else recorder.value_of(pred)
    deciding = graph_values(recorder.with_symbols(), [pred]) if type(pred) is Bool else [decides]
    if type(pred) is not Bool and decides.facts.size.numel() != 1:
        raise refuse(name, f"Expected pred to be a tensor of one element, but got {decides.facts}")
    if not is_a(operands, (tuple, list)):
        raise refuse(name, f"Expected operands to be a tuple or a list, but got {name_of(type(operands))}")
    if type(pred) is not Bool and recorder.in_transform() and recorder.live.ask(is_batchedtensor, decides):
        return _both(session, name, pred, (true_fn, false_fn), tuple(operands))
    branches = [
        _Outputs(recorder, name, pure_body(session, name, fn, tuple(operands)), (int, Int))
        for fn in (true_fn, false_fn)
    ]
    if branches[0].spec != branches[1].spec:
        raise refuse(name, f"the branches return different structures: {branches[0].spec} and {branches[1].spec}")
    if [*map(recorder.is_stand_in, branches[0].leaves)] != [*map(recorder.is_stand_in, branches[1].leaves)]:
        raise refuse(name, "one branch returns a number where the other returns a tensor")
    if any(map(_takes_int, branches)) and not recorder.runs_as_is():
        raise refuse(name, "a branch returns a number that it takes out of a tensor, which the backend cannot compile")
    _agree(name, "the branches' results", branches[0].facts, branches[1].facts)
    given = values_in(recorder, pytree.tree_leaves(operands))
    around = _around(recorder, *((b.body, given, tuple(b.leaves)) for b in branches))
    bodies = [b.body.close(recorder, given, tuple(b.leaves), around, takes=(Int,))[0] for b in branches]
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
    results = _results(recorder, step, branches[0].leaves, _result_facts(branches[0].facts, inputs), exact)
    return pytree.tree_unflatten(results, branches[0].spec)


def _takes_int(branch: _Outputs) -> bool:
    """Return whether an int that a branch returns is computed by its own graph."""
    inside = {id(step) for step in branch.body.tape}
    numbers = [leaf for leaf in branch.leaves if type(leaf) is Int]
    return any(id(value.step) in inside for one in numbers for value in graph_values(one.home, [one]))


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


@operator("while_loop", "torch.while_loop")
@operator("while_loop_stack_output", "while_loop_stack_output")
def _loop(
    session: Session, callable_: Any, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()
) -> Any:
    """A loop that the graph runs; the results of the second operator are those of all steps."""
    stacked = callable_.name() == "while_loop_stack_output"
    name, carried, additional = callable_.name() if stacked else "torch.while_loop", carried_inputs, additional_inputs
    recorder = session.recorder
    numbers = () if stacked else (int, Int)
    if (
        not carried
        or not all(recorder.is_stand_in(x) or type(x) in numbers for x in carried)
        or not all(map(recorder.is_stand_in, additional))
    ):
        raise refuse(name, f"only tensors{' and ints' if numbers else ''} can be carried from step to step")
    start = [recorder.value_of(x) if recorder.is_stand_in(x) else x for x in carried]
    sides = [[_carried(recorder, value, f"carried_{i}") for i, value in enumerate(start)] for _ in range(2)]
    test = pure_body(session, name, cond_fn, (*(shown for shown, _ in sides[0]), *additional))
    if type(test.result) is not Bool and (
        not recorder.is_stand_in(test.result) or recorder.value_of(test.result).facts.size.numel() != 1
    ):
        raise refuse(name, "cond_fn must return a truth value, or a boolean tensor of one element")
    made = _Outputs(
        recorder, name, pure_body(session, name, body_fn, (*(shown for shown, _ in sides[1]), *additional)), numbers
    )
    _check_not_relied_on(recorder, name, [shown for side in sides for shown, _ in side if type(shown) is Int])
    if len(made.leaves) != len(start) or any(
        recorder.is_stand_in(leaf) != (type(one) is Value) for leaf, one in zip(made.leaves, start)
    ):
        raise refuse(name, "body_fn must return as many tensors and ints as it is given, in the same places")
    tensors = [one for one in start if type(one) is Value]
    _agree(name, "what body_fn is given and what it returns", [value.facts for value in tensors], made.facts)
    given = [list(dict.fromkeys(value for _, value in side)) for side in sides]
    around = _around(recorder, (test, given[0], test.result), (made.body, given[1], tuple(made.leaves)))
    bodies = [
        test.close(recorder, given[0], test.result, around, takes=(Int,))[0],
        made.body.close(recorder, given[1], tuple(made.leaves), around, takes=(Int,))[0],
    ]
    read = graph_values(recorder.with_symbols(), [x for x in carried if type(x) is Int])
    step = record_step(
        recorder,
        callable_,
        [Body(bodies[0], "cond_fn"), Body(bodies[1], "body_fn"), tuple(start), tuple(around)],
        {},
        [*read, *tensors, *around],
        test.has_effect or made.body.has_effect,
    )
    facts = _result_facts(made.facts, [*tensors, *around])
    if stacked:
        count = _unknown(recorder)
        check(count >= 1)  # without a step there is the row of the start
        results = fresh_results(recorder, step, [_stacked(one, count) for one in facts], [False] * len(facts))
    else:
        results = _results(recorder, step, made.leaves, facts, [value.exact for value in made.values])
    return pytree.tree_unflatten(results, made.spec)


def _carried(recorder: Recorder, one: Any, name: str) -> tuple[Any, Value]:
    """Return what a body sees of one that is carried, and its operand. Of an int it sees a number that changes."""
    if type(one) is Value:
        shown = _operand(recorder, one, name)
        return shown, recorder.value_of(shown)
    value = Value(None, None, Storage(external=False))  # type: ignore[arg-type]  # a number, which has neither
    value.name = name
    return recorder.with_symbols().unbacked(_unknown(recorder), value), value


def _check_not_relied_on(recorder: Recorder, name: str, numbers: list[Int]) -> None:
    """Interrupt where a body checks a number (`torch._check`): it holds for one step, graphs check outside bodies."""
    env = recorder.with_symbols().env
    own = {symbol for number in numbers for symbol in number.raw.node.expr.free_symbols}
    checked = {
        symbol for rows in env.deferred_runtime_asserts.values() for row in rows for symbol in row.expr.free_symbols
    }
    if own & checked or any(env.var_to_range[symbol] != ValueRanges(-int_oo, int_oo) for symbol in own):
        raise refuse(name, "a body checks a number that is carried from step to step")


def _results(
    recorder: Recorder, step: Step, leaves: Sequence[Any], facts: Sequence[Facts], exact: Sequence[bool]
) -> list[Any]:
    """Return the results of an operator for those of a body: tensors, and ints that only the graph knows."""
    rest, is_exact, results = iter(facts), iter(exact), []
    for i, leaf in enumerate(leaves):
        if recorder.is_stand_in(leaf):
            results += fresh_results(recorder, step, [next(rest)], [next(is_exact)], first=i)
        else:
            value = Value(None, None, Storage(external=False))  # type: ignore[arg-type]  # a number, which has neither
            value.step, value.path = step, (i,)
            results.append(recorder.with_symbols().unbacked(_unknown(recorder), value))
    return results


def _unknown(recorder: Recorder) -> torch.SymInt:
    """A number that only the graph knows.  It is known by the step that makes it, so torch need not wait for it."""
    env = recorder.with_symbols().env
    with env.ignore_fresh_unbacked_symbols():
        return env.create_unbacked_symint()


@operator("map_impl", "torch.map")
def _map(session: Session, callable_: Any, f: Any, xs: Any, pos_args: Any = ()) -> Any:
    name, recorder = "torch.map", session.recorder
    mapped = [recorder.value_of(x) for x in xs]
    count = mapped[0].facts.size[0]
    slices = [_slice(recorder, value, f"x_{i}") for i, value in enumerate(mapped)]
    outputs = _Outputs(recorder, name, pure_body(session, name, f, (*slices, *pos_args)))
    facts = [_stacked(one, count) for one in outputs.facts]
    return _applied(recorder, callable_, "map_body", outputs, tuple(outputs.leaves), slices, [mapped], facts)


@operator("scan", "torch.scan")
def _scan(session: Session, callable_: Any, combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    name, recorder = "torch.scan", session.recorder
    start, scanned = [recorder.value_of(x) for x in init], [recorder.value_of(x) for x in xs]
    count = scanned[0].facts.size[0]
    operands = [
        *(_operand(recorder, v, f"carry_{i}") for i, v in enumerate(start)),
        *(_slice(recorder, v, f"x_{i}") for i, v in enumerate(scanned)),
    ]
    outputs = _Outputs(recorder, name, pure_body(session, name, combine_fn, (*operands, *additional_inputs)))
    if type(outputs.body.result) is not tuple or len(outputs.body.result) != 2:
        raise refuse(name, "combine_fn must return a pair: the carry and the output")
    _agree(name, "init and the carry that combine_fn returns", [v.facts for v in start], outputs.facts[: len(start)])
    facts = [*outputs.facts[: len(start)], *(_stacked(one, count) for one in outputs.facts[len(start) :])]
    return _applied(
        recorder, callable_, "scan_combine", outputs, list(outputs.leaves), operands, [start, scanned], facts
    )


@operator("associative_scan", "torch.associative_scan")
def _associative_scan(session: Session, callable_: Any, combine_fn: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    name, recorder = "torch.associative_scan", session.recorder
    scanned = [recorder.value_of(x) for x in xs]
    operands = [_slice(recorder, v, f"{side}_{i}") for side in ("left", "right") for i, v in enumerate(scanned)]
    outputs = _Outputs(recorder, name, pure_body(session, name, combine_fn, (*operands, *additional_inputs)))
    _agree(
        name,
        "what combine_fn is given and what it returns",
        [recorder.value_of(x).facts for x in operands[: len(scanned)]],
        outputs.facts,
    )
    facts = [_stacked(one, v.facts.size[0]) for one, v in zip(outputs.facts, scanned)]
    leaves = list(outputs.leaves)
    return _applied(recorder, callable_, "associative_combine", outputs, leaves, operands, [scanned], facts, tuple)


def _applied(
    recorder: Recorder,
    callable_: Any,
    name: str,
    outputs: _Outputs,
    leaves: Any,
    operands: list[Any],
    given: list[list[Value]],
    facts: list[Facts],
    of_around: Callable[[list[Value]], Any] = list,
) -> Any:
    """Record an operator that calls its body for each step, and return its results; `given`: what it walks over."""
    body, around = outputs.body.close(recorder, values_in(recorder, operands), leaves, takes=(Int,))
    inputs = [*(value for row in given for value in row), *around]
    args = [Body(body, name), *map(list, given), of_around(around)]
    step = record_step(recorder, callable_, args, {}, inputs, outputs.body.has_effect)
    made = fresh_results(recorder, step, _result_facts(facts, inputs), [False] * len(facts))
    return pytree.tree_unflatten(made, outputs.spec)


@operator("strict_mode", "torch.strict_mode")
def _strict_mode(session: Session, callable_: Any, callable: Any, operands: Any) -> Any:
    return _called_once(session, callable_, "torch.strict_mode", callable, tuple(operands))


@operator("hints_wrapper")
def _hints_wrapper(session: Session, callable_: Any, body_fn: Any, args: Any, kwargs: Any, hints: Any) -> Any:
    plain = type(kwargs) is dict and not kwargs and type(hints) is dict and type(args) in (tuple, list)
    if not plain or any(
        type(key) is not str or type(value) not in (int, float, bool, str) for key, value in hints.items()
    ):
        raise Interrupt("torch-operation", "torch.ops.higher_order.hints_wrapper with arguments that it refuses")
    return _called_once(session, callable_, "hints_wrapper", body_fn, tuple(args), ({},), {"hints": dict(hints)})


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
    body, around = outputs.body.close(recorder, given, tuple(outputs.leaves), takes=(Int,))
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
def _print(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> None:
    """Text that is printed when the graph runs; the operator exists to be part of one."""
    recorder = session.recorder
    for value in (*args, *kwargs.values()):
        if not recorder.is_stand_in(value) and type(value) not in (str, bool, int, float, type(None), *NUMBERS):
            raise Interrupt("torch-operation", f"torch.ops.higher_order.print of a {name_of(type(value))}")
    (said, named), values = kept_of(recorder, (args, kwargs))
    record_step(recorder, callable_, list(said), dict(named), values, effect=True)

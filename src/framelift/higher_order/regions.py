"""Regions: a call of a Python function recorded as a graph of its own, which runs exactly once.

Checkpointed functions, nested compile regions and `wrap`.  Without them the function would be captured in line;
what they change is what a backend does with the region.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.checkpoint

from .. import _core
from .._core import is_a
from ..calls.call_tables import substitute
from ..graph.fx.node_functions import checkpoint_region, compile_region
from ..graph.fx.values import Body, Value
from ..graph.symbols.numbers import Float, Int
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.graphs import pytree
from ..torch_ports.operators import (
    BaseHOP,
    InvokeQuant,
    OpOverload,
    OpOverloadPacket,
    invoke_subgraph_placeholder,
    tag_activation_checkpoint,
)
from ..vocabulary.class_reads import module_of, name_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt
from .bodies import Rehearsed, fresh, kept_of, values_in
from .operators import family, operator, pure_body, record_step

if TYPE_CHECKING:
    from ..recording.session import Session


def _record(
    session: Session,
    target: Any,
    body: Rehearsed,
    given: list[Value],
    name: str,
    before: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    takes: tuple[type, ...] = (Int, Float),
) -> Any:
    """The node of a region; what it returns holds the node's results, wherever in it they are.

    `takes`: the external numbers that the operator can be given.
    """
    recorder = session.recorder
    escaping = body.escaping(recorder)
    module, around = body.close(recorder, given, tuple(value.stand_in for value in escaping), takes=takes)
    module.meta.update(meta or {})
    inputs = [*given, *around]
    effect = body.has_effect or bool(body.writes_outside())
    step = record_step(recorder, target, [Body(module, name), *before, *inputs], dict(kwargs or {}), inputs, effect)
    for i, value in enumerate(escaping):
        value.step, value.path = step, (i,)  # the same tensor, seen from outside
    return body.result


def _tensors(session: Session, args: Any) -> list[Value]:
    return values_in(session.recorder, pytree.tree_leaves(args))


@operator("wrap")
def _wrap(session: Session, callable_: Any, function: Any, /, *rest: Any, **kwargs: Any) -> Any:
    body = pure_body(session, "wrap", function, rest, kwargs, once=True, writes=True)
    return _record(session, callable_, body, _tensors(session, (rest, kwargs)), "wrap_body")


@family(BaseHOP)
def _named_region(session: Session, callable_: Any, function: Any, /, *operands: Any, **kwargs: Any) -> Any:
    """An operator that means its function of its operands; its keywords are for the backend.  It may neither write nor
    return what it is given.
    """
    body = pure_body(session, callable_.name(), function, operands)
    recorder = session.recorder
    inside = {id(step) for step in body.tape}
    results = [recorder.value_of(leaf) for leaf in pytree.tree_leaves(body.result) if recorder.is_stand_in(leaf)]
    if any(id(value.step) not in inside for result in results for value in result.storage.values):
        raise Interrupt(
            "body-shape", f"{callable_.name()}: its function returns a tensor that shares memory with an input"
        )
    given, said = _tensors(session, operands), _said(callable_, kwargs)
    return _record(session, callable_, body, given, "subgraph", kwargs=said, takes=(Int,))


def _said(callable_: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of an operator that a node can hold; an object of defaults says nothing."""
    said = {name: value for name, value in kwargs.items() if type(value) is not InvokeQuant or value != InvokeQuant()}
    for name, value in said.items():
        if not is_a(value, (bool, int, float, str, type(None))):
            raise Interrupt(
                "torch-operation",
                f"torch.ops.higher_order.{callable_.name()} with {name} of type {name_of(type(value))}",
            )
    return said


@operator("out_dtype")
def _out_dtype(session: Session, callable_: Any, inner: Any, dtype: Any, /, *rest: Any, **kwargs: Any) -> Any:
    """An operator with a result of another dtype: one node, whose result is like the operator's own."""
    recorder = session.recorder
    outer, recorder.tape = recorder.tape, []  # what the operator itself would give is asked, not recorded
    try:
        like = recorder.value_of(recorder.call(inner, rest, kwargs))
    finally:
        recorder.tape = outer
    kept, values = kept_of(recorder, list(rest))
    step = record_step(recorder, callable_, [inner, dtype, *kept], {}, values)
    made = fresh(recorder, like.facts.but(dtype=dtype), exact=like.exact)
    recorder.value_of(made).step = step
    return made


@operator("trace_wrapped")
def _trace_wrapped(session: Session, /, *args: Any, fn: Any, **kwargs: Any) -> Any:
    """A function that waits for the backward to be compiled; here it is."""
    return _core.captured(fn, args, kwargs)


@substitute(torch.utils.checkpoint.checkpoint)
def _checkpoint(
    session: Session,
    function: Any,
    /,
    *args: Any,
    use_reentrant: Any = True,
    context_fn: Any = torch.utils.checkpoint.noop_context_fn,
    preserve_rng_state: Any = True,
    determinism_check: Any = None,
    debug: Any = False,
    early_stop: Any = True,
    **kwargs: Any,
) -> Any:
    if debug is not False:
        raise Interrupt("torch-operation", "torch.utils.checkpoint.checkpoint with debug")
    if not is_grad_enabled() or session.in_transform():
        return _core.captured(function, args, kwargs)
    body = pure_body(session, "checkpoint", function, args, kwargs)
    recorder = session.recorder
    given = _tensors(session, (args, kwargs))
    leaving, before = tuple(v.stand_in for v in body.escaping(recorder)), len(recorder.tape)
    around = body.close(recorder, given, leaving, takes=(Int, Float))[1]
    if not any(value.facts is not None and value.facts.requires_grad for value in (*given, *around)):
        del recorder.tape[before:]  # numbers that the body would be given
        return body.inline(recorder)  # nothing will be recomputed
    if context_fn is not torch.utils.checkpoint.noop_context_fn:
        body_contexts = _selective(session, context_fn)
        if use_reentrant:
            raise Interrupt("torch-operation", "a reentrant checkpoint with context_fn")
        return _record(
            session,
            checkpoint_region,
            body,
            given,
            "wrap_body",
            kwargs={"preserve_rng_state": preserve_rng_state},
            meta={"_checkpoint_context_fn": body_contexts},
        )
    if use_reentrant and not any(value.facts.requires_grad for value in given):
        raise Interrupt("torch-operation", "a reentrant checkpoint none of whose arguments require grad")
    if body.has_effect:  # random numbers: the recomputation must draw the same ones
        return _record(
            session, checkpoint_region, body, given, "wrap_body", kwargs={"preserve_rng_state": preserve_rng_state}
        )
    return _record(
        session, tag_activation_checkpoint, body, given, "wrap_body", kwargs={"use_reentrant": bool(use_reentrant)}
    )


def _selective(session: Session, contexts: Any) -> Any:
    """Return a function that makes the contexts of a selective checkpoint, to be called when the graph runs.

    It decides what is kept and what is computed again, never what comes out; of others than torch's own nobody knows
    that.
    """
    made = _core.captured(contexts, (), None)
    if (
        type(made) is not tuple
        or [module_of(type(context)) for context in made] != [torch.utils.checkpoint.__name__] * 2
    ):
        raise Interrupt("torch-operation", "torch.utils.checkpoint.checkpoint with a context_fn of the program's")
    inner = contexts
    while type(inner) is functools.partial:
        parts = [*inner.args, *inner.keywords.values()]
        if not all(_may_stay(part) for part in parts):
            raise Interrupt(
                "torch-operation", "torch.utils.checkpoint.checkpoint with a context_fn over values of one call"
            )
        inner = inner.func
    if not _may_stay(inner):
        raise Interrupt("torch-operation", "torch.utils.checkpoint.checkpoint with a context_fn made inside")
    return contexts if inner is contexts else functools.partial(contexts)


def _may_stay(value: Any) -> bool:
    """Return whether a value means the same outside of the rehearsal."""
    if type(value) is list:
        return all(map(_may_stay, value))
    if is_a(value, types.FunctionType):
        return not value.__closure__ or not _core.is_internal(value)
    return is_a(value, (OpOverload, OpOverloadPacket, bool, int, str, type(None)))


_REGIONS: FeatureState[list[Any]] = FeatureState(list)


@substitute(invoke_subgraph_placeholder)
def _region(session: Session, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A function under `torch.compiler.nested_compile_region`."""
    if session.in_transform():
        return _core.captured(function, args, kwargs)
    body = pure_body(session, "nested_compile_region", function, args, kwargs)
    met = _REGIONS.of(session)
    met.append(body)
    name = f"subgraph_{len(met)}"
    given = _tensors(session, (args, kwargs))
    return _record(session, compile_region, body, given, name, before=(name,), takes=(Int,))

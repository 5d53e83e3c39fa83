"""`torch.autograd.Function`: forward and backward are rehearsed into two graphs, one node applies them.

Without gradients to track there is no node: the forward's operations stand in the graph themselves.  Both are the
program's Python, so all they read is guarded; a backward that changes anything outside of itself is refused.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx, FunctionMeta, once_differentiable

from .. import _core
from .._core import is_a
from ..boundary.becomes.leaves import LEAF_TYPES
from ..boundary.facts.unwatched_reads import UNWATCHED_READS
from ..calls.call_tables import substitute
from ..graph.fx.node_functions import apply_function
from ..graph.fx.targets import target_of
from ..graph.fx.values import Body, Step, Value
from ..graph.metadata.facts import new_stand_in
from ..graph.state.torch_state import AUTOCAST_DEVICES, read_state
from ..graph.symbols.numbers import Float, Int
from ..higher_order.bodies import Rehearsed, fresh, rehearse_body, values_in
from ..higher_order.deferred_code import runs_later
from ..higher_order.operators import pure_body
from ..substitutes import marks
from ..torch_ports.autograd import FunctionBase, SingleLevelFunction, is_grad_enabled
from ..torch_ports.graphs import pytree
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import name_of, qualname_of
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from ..vocabulary.torch_code import is_class_of
from .tensor_hooks import without_gradients

if TYPE_CHECKING:
    from ..recording.session import Recorder, Session

_ONCE = once_differentiable(lambda: None).__code__
_BASE = torch.autograd.Function
_NUMBERS = (Int, Float)  # that forward and backward take from outside
_MOST_OPTIONAL = 3  # outputs whose gradients may be None: each pattern is rehearsed on its own


class Context(FunctionCtx):
    """The `ctx` of a rehearsed forward and backward."""

    needs_input_grad: tuple[bool, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(self.__dict__.get("to_save", ()))


def _unknown(name: str) -> property:
    def refuse(self: Any, *_value: Any) -> Any:
        raise Interrupt("torch-operation", f"ctx.{name} of an autograd function")

    return property(refuse, (lambda self, value: None) if name in _FOR_JVP else refuse)


#: what only `jvp` reads, which nobody calls here: where forward-mode differentiation is on, `apply` interrupts
_FOR_JVP = ("saved_for_forward",)


for _name in dir(FunctionBase):
    if not hasattr(Context, _name) and _name not in (
        "to_save",
        "non_differentiable",
        "dirty_tensors",
        "materialize_grads",
    ):
        setattr(Context, _name, _unknown(_name))


#: `apply` as `Function` itself defines it: a Python function, or since 2.14 one of C's, bound anew at each read
_APPLY = inspect.getattr_static(_BASE, "apply")


def bound_apply(callable_: Any) -> Any:
    """The handler of `MyFunction.apply` where C binds it, else None."""
    if not is_a(callable_, types.BuiltinMethodType) or callable_.__name__ != "apply":
        return None
    cls = callable_.__self__
    if not is_a(cls, type) or not issubclass(cls, _BASE) or inspect.getattr_static(cls, "apply") is not _APPLY:
        return None
    return lambda session, bound, args, kwargs: _apply(session, bound, (bound.__self__, *args), kwargs)


@substitute(getattr(_APPLY, "__func__", _APPLY))
def _apply(session: Session, cls: Any, /, *inputs: Any, **kwargs: Any) -> Any:
    if marks.handler_of(cls) is marks.allowed:  # the program vouches for it
        UNWATCHED_READS.of(session, session.world).follow(cls)
        return marks.allowed(session, _applier(cls), inputs, kwargs)
    forward, setup, backward = _methods(cls)
    if setup is not None:
        inputs, kwargs = _bound(forward, inputs, kwargs)
    if kwargs:
        raise Interrupt("torch-operation", "autograd.Function.apply with keyword arguments")
    recorder = session.recorder
    if forward_ad._current_level >= 0:  # of the call, and guarded; its tangents come from the class's `jvp`
        raise Interrupt("torch-operation", f"{qualname_of(cls)}.apply inside forward-mode differentiation")
    if recorder.in_transform():
        return _batched(session, cls, forward, setup, inputs)
    tensors = [x for x in inputs if recorder.is_stand_in(x)]
    ctx = Context()
    ctx.needs_input_grad = tuple(recorder.is_stand_in(x) and recorder.value_of(x).facts.requires_grad for x in inputs)
    is_tracked = any(ctx.needs_input_grad)
    if session.policy.keep_functions:  # for calls that want other gradients than this one
        values = [recorder.value_of(x) if recorder.is_stand_in(x) else None for x in inputs]
        ctx.needs_input_grad = tuple(value is not None and _is_differentiable(value) for value in values)

    def run() -> Any:
        if setup is None:
            return _core.captured(forward, (ctx, *inputs), None)
        output = _core.captured(forward, inputs, None)
        _core.captured(setup, (ctx, inputs, output), None)
        return output

    if not is_grad_enabled() or not any(ctx.needs_input_grad):
        with without_gradients():
            return _plain_result(recorder, run(), tensors, ctx)
    return _Tracked(session, cls, backward, ctx, inputs, tensors, is_tracked).result(run)


def _batched(session: Session, cls: type, forward: Any, setup: Any, inputs: tuple[Any, ...]) -> Any:
    """Inside `vmap` alone, with a rule made of the forward: its operations stand in the graph themselves."""
    recorder = session.recorder
    tracked = any(
        recorder.value_of(x).facts.requires_grad for x in pytree.tree_leaves(inputs) if recorder.is_stand_in(x)
    )
    if (
        setup is None
        or not _core.read(cls, "generate_vmap_rule")
        or not recorder.live.only_vmap()
        or tracked
        and is_grad_enabled()
    ):
        raise Interrupt("torch-operation", f"{qualname_of(cls)}.apply inside a function transform")
    with without_gradients():
        ctx = Context()
        ctx.needs_input_grad = (False,) * len(inputs)
        output = _core.captured(forward, inputs, None)
        if any(output is x for x in inputs) or not recorder.is_stand_in(output):
            raise Interrupt("torch-operation", f"{qualname_of(cls)}.apply inside a function transform")
        _core.captured(setup, (ctx, inputs, output), None)
    return output


def _applier(cls: type[Any]) -> Any:
    """`cls.apply` as a function of its own: FX writes bound methods of torch's classes wrongly as code."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)

    apply.__name__ = f"{name_of(cls)}_apply"
    return apply


def make_function(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`MyFunction()`: deprecated and without state; torch warns of it here, once."""
    return callable_(*args, **kwargs)


@substitute(FunctionMeta.__init__)
def _new_function_class(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A class made inside gets its number from a counter of the process, which nobody reads."""
    return callable_(*args, **kwargs)


def is_function_class(callable_: Any) -> Any:
    """`make_function` for the classes it serves, else None."""
    if not is_a(callable_, type) or not issubclass(callable_, _BASE):
        return None
    return make_function if callable_.__init__ is _BASE.__init__ else None  # type: ignore[misc]  # of a class


def _methods(cls: type) -> tuple[Any, Any, Any]:
    """forward, setup_context (None where it is not overridden) and backward of a function class."""
    forward, setup = _core.read(cls, "forward"), _core.read(cls, "setup_context")
    backward = _core.read(cls, "backward")
    if backward is _BASE.backward:
        backward = _core.read(cls, "vjp")
    return forward, None if setup is SingleLevelFunction.setup_context else setup, backward


def _bound(forward: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the forward's defaults filled in, as `apply` does where there is a setup_context."""
    bound = inspect.signature(forward).bind(*inputs, **kwargs)
    given = {id(x) for x in (*inputs, *kwargs.values())}
    bound.apply_defaults()
    if any(id(x) not in given and type(x) not in LEAF_TYPES for x in bound.args):
        raise Interrupt("torch-operation", "autograd.Function.apply with a default value that is no plain value")
    return bound.args, bound.kwargs


def _is_differentiable(value: Value) -> bool:
    return value.facts.dtype.is_floating_point or value.facts.dtype.is_complex


def _marked(recorder: Recorder, ctx: Context, name: str) -> list[Value]:
    marked = ctx.__dict__.get(name) or ()
    return [recorder.value_of(t) for t in marked if t is not None]


def _plain_result(recorder: Recorder, result: Any, tensors: list[Any], ctx: Context) -> Any:
    """Return the outputs as autograd does where nothing is tracked: an input among them is another tensor object."""
    dirty = _marked(recorder, ctx, "dirty_tensors")

    def one(out: Any) -> Any:
        if not recorder.is_stand_in(out):
            return out
        value = recorder.value_of(out)
        if any(out is t for t in tensors):
            if value in dirty:
                return out
            if value.facts.requires_grad:
                return recorder.record(target_of(torch.Tensor.detach), (out,), {}, keep=True)
            return recorder.record(target_of(torch.Tensor.view_as), (out, out), {}, keep=True)
        if value.facts.requires_grad and not value.view:
            raise Interrupt("torch-operation", "an autograd function whose forward tracks gradients itself")
        return out

    return tuple(map(one, result)) if type(result) is tuple else one(result)


@dataclass
class _Tracked:
    """One application whose gradients are tracked."""

    session: Session
    cls: type
    backward: Any
    ctx: Context
    inputs: tuple[Any, ...]
    tensors: list[Any]
    is_tracked: bool  # otherwise the node is for later calls of an exported program

    def __post_init__(self) -> None:
        self.recorder = self.session.recorder

    def result(self, run: Any) -> Any:
        """Rehearse both bodies, record the node, and answer with what `apply` gives."""
        state = read_state()
        recorder = self.recorder
        with without_gradients():
            body = rehearse_body(self.session, run, ())
        raw = body.result if type(body.result) is tuple else (body.result,)
        outputs = [x for x in raw if recorder.is_stand_in(x)]
        self.dirty = _marked(recorder, self.ctx, "dirty_tensors")
        self.constant = _marked(recorder, self.ctx, "non_differentiable")
        self.materialize = bool(self.ctx.__dict__.get("materialize_grads", True))
        self._check(body, outputs)
        operands = values_in(recorder, self.tensors)
        given = self._given(outputs)
        rehearsed = [self._backward(raw, outputs, pattern) for pattern in given]
        kept = list(
            dict.fromkeys(
                value
                for body_, operands_, result in rehearsed
                for value in body_.close(recorder, operands_, result, takes=_NUMBERS)[1]
            )
        )
        bwds = [
            body_.close(recorder, operands_, result, kept, takes=_NUMBERS)[0] for body_, operands_, result in rehearsed
        ]
        fwd, around = body.close(recorder, operands, tuple(outputs), takes=_NUMBERS, gives=kept)
        to_save = values_in(recorder, self.ctx.saved_tensors)
        places = [recorder.value_of(t) for t in self.tensors]
        step = Step(
            target_of(apply_function),
            [Body(fwd, "fwd_body"), tuple(Body(bwd, "bwd_body") for bwd in bwds), tuple(around), *places],
            {
                "given": given,
                "first": tuple(places.index(value) for value in operands),
                "saved": tuple(value in to_save for value in kept),
                "dirty": tuple(places.index(value) for value in self.dirty),
                "constant": tuple(i for i, out in enumerate(outputs) if recorder.value_of(out) in self.constant),
                "materialize": self.materialize,
                "once": getattr(self.backward, "__code__", None) is _ONCE,
            },
            [*around, *places],
            state,
            body.has_effect,
        )
        recorder.tape.append(step)
        made = {id(out): self._made(step, i, recorder.value_of(out)) for i, out in enumerate(outputs)}
        result = tuple(made.get(id(x), x) for x in raw)
        return result if type(body.result) is tuple else result[0]

    def _check(self, body: Rehearsed, outputs: list[Any]) -> None:
        name = qualname_of(self.cls)
        if len(set(map(id, outputs))) < len(outputs):
            raise Interrupt("torch-operation", f"{name}.apply, which returns one tensor twice")
        inputs = {id(t) for t in self.tensors}
        for value in self.dirty:
            if id(value.stand_in) not in inputs or value.external is not None or len(value.storage.values) > 1:
                raise Interrupt(
                    "torch-operation", f"{name}.apply, which marks as dirty what is not simply one of its arguments"
                )
        for out in outputs:
            value = self.recorder.value_of(out)
            if value.facts.requires_grad and id(out) not in inputs and not value.view:
                raise Interrupt("torch-operation", f"{name}.forward, which tracks gradients itself")

    def _is_tracked(self, value: Value) -> bool:
        return value not in self.constant and _is_differentiable(value)

    def _given(self, outputs: list[Any]) -> tuple[tuple[bool, ...], ...]:
        """Which outputs may have a gradient when the backward runs: each possible pattern."""
        tracked = [self._is_tracked(self.recorder.value_of(out)) for out in outputs]
        if self.materialize:
            return ((True,) * len(outputs),)
        if sum(tracked) > _MOST_OPTIONAL:
            raise Interrupt("torch-operation", f"{qualname_of(self.cls)}.apply, whose gradients may each be None,")
        patterns = itertools.product(*((True, False) if one else (False,) for one in tracked))
        return tuple(pattern for pattern in patterns if any(pattern))

    def _backward(
        self, raw: tuple[Any, ...], outputs: list[Any], given: tuple[bool, ...]
    ) -> tuple[Rehearsed, list[Value], Any]:
        """The backward, run with the gradients given: its body, operands, and a gradient per tensor argument."""
        recorder, grads, name = self.recorder, {}, qualname_of(self.cls)
        for i, (out, is_given) in enumerate(zip(outputs, given)):
            if is_given:
                facts = recorder.value_of(out).facts.but(requires_grad=False, is_leaf=True, is_conj=False, is_neg=False)
                grads[id(out)] = fresh(recorder, facts, f"grad_{i}", exact=False)
        taken = (self.ctx, *(grads.get(id(x)) for x in raw))
        with backward_state():
            try:
                body = pure_body(self.session, f"{name}.backward", self.backward, taken)
            except Exception as error:
                raise Interrupt("torch-operation", f"{name}.backward, which raises {name_of(type(error))},") from error
        is_torchs = is_class_of(self.cls, "torch")
        runs_later(self.session, f"{name}.backward", self.backward, self.ctx, is_torchs=is_torchs)
        result = body.result if type(body.result) is tuple else (body.result,)
        if any(not (x is None or recorder.is_stand_in(x)) for x in result):
            raise Interrupt("torch-operation", f"{name}.backward, which gives something else than tensors,")
        if len(result) < len(self.inputs):
            result = ()  # autograd says that there are too few when the backward runs
        else:
            result = tuple(result[i] for i, x in enumerate(self.inputs) if recorder.is_stand_in(x))
        return body, values_in(recorder, grads.values()), result

    def _made(self, step: Step, index: int, inner: Value) -> torch.Tensor:
        """The output that stands for a tensor which the forward returned."""
        tracked = self.is_tracked and self._is_tracked(inner)
        facts = inner.facts.but(requires_grad=tracked, is_leaf=not tracked, is_inference=False)
        if inner in self.dirty:
            inner.facts = facts  # the same tensor, written in place: its node stays the one it was made by
            return inner.stand_in
        shares = any(inner.storage is self.recorder.value_of(t).storage for t in self.tensors) or inner.storage.external
        with DisableTorchFunction():
            value = Value(new_stand_in(facts), facts, inner.storage, "custom" if shares else "")
        value.step, value.path, value.exact = step, (index,), inner.exact
        return self.recorder.adopt(value)


@scope
def backward_state() -> Iterator[None]:
    """Set the state of autograd's engine for a backward: no grad mode, and no autocast, as it mostly is."""
    autocast = [(device, torch.is_autocast_enabled(device)) for device in AUTOCAST_DEVICES]
    for device, _ in autocast:
        torch.set_autocast_enabled(device, False)
    try:
        with without_gradients():
            yield
    finally:
        for device, enabled in autocast:
            torch.set_autocast_enabled(device, enabled)

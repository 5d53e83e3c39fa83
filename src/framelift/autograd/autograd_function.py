"""`torch.autograd.Function`: forward and backward are rehearsed into two graphs, one node applies them.

Without gradients to track there is no node: the forward's operations stand in the graph themselves.  Both are the program's Python, so all they
read is guarded; a backward that changes anything outside of itself is refused.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import FunctionCtx, FunctionMeta, once_differentiable
from torch.utils import _pytree as pytree

from .. import _core
from .._core import is_a
from ..graph.metadata.facts import new_stand_in
from ..graph.fx.node_functions import apply_function
from ..graph.state.torch_state import AUTOCAST_DEVICES, read_state
from ..graph.fx.tape import Step
from ..graph.fx.targets import target_of
from ..graph.fx.values import Body, Value
from ..vocabulary.reasons import Interrupt
from ..boundary.becomes.leaves import LEAF_TYPES
from ..boundary.facts.unwatched_reads import UnwatchedReads
from ..substitutes import marks
from ..higher_order.bodies import Rehearsed, Surroundings, fresh, rehearse_body, values_in
from ..higher_order.deferred_code import runs_later
from ..calls.call_tables import substitute

if TYPE_CHECKING:
    from ..recording.recorder import Recorder
    from ..rehearsal.session import Session

__all__ = ["Context", "backward_state", "bound_apply", "is_function_class"]

_ONCE = once_differentiable(lambda: None).__code__
_BASE = torch.autograd.Function
_MOST_OPTIONAL = 3   # outputs whose gradients may be None: each pattern is rehearsed on its own


class Context(FunctionCtx):
    """What a rehearsed forward and backward get as `ctx`."""

    needs_input_grad: tuple[bool, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(self.__dict__.get("to_save", ()))


def _unknown(name: str) -> property:
    def refuse(self: Any, *_value: Any) -> Any:
        raise Interrupt("torch-operation", f"ctx.{name} of an autograd function")
    return property(refuse, refuse)


for _name in dir(torch._C._FunctionBase):
    if not hasattr(Context, _name) and _name not in ("to_save", "non_differentiable", "dirty_tensors", "materialize_grads"):
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
def _apply(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    cls, *inputs = args
    if marks.handler_of(cls) is marks.allowed:   # the program vouches for it
        UnwatchedReads.of(session.world).follow(cls)
        return marks.allowed(session, _applier(cls), tuple(inputs), kwargs)
    forward, setup, backward = _methods(cls)
    if setup is not None:
        inputs, kwargs = _bound(forward, inputs, kwargs)
    if kwargs:
        raise Interrupt("torch-operation", "autograd.Function.apply with keyword arguments")
    recorder = session.recorder
    if recorder.in_transform():
        return _batched(session, cls, forward, setup, inputs)
    tensors = [x for x in inputs if recorder.is_stand_in(x)]
    ctx = Context()
    ctx.needs_input_grad = tuple(recorder.is_stand_in(x) and recorder.value_of(x).facts.requires_grad for x in inputs)
    is_tracked = any(ctx.needs_input_grad)
    if session.keep_functions:   # for calls that want other gradients than this one
        values = [recorder.value_of(x) if recorder.is_stand_in(x) else None for x in inputs]
        ctx.needs_input_grad = tuple(value is not None and _is_differentiable(value) for value in values)

    def run() -> Any:
        if setup is None:
            return _core.captured(forward, (ctx, *inputs), None)
        output = _core.captured(forward, tuple(inputs), None)
        _core.captured(setup, (ctx, tuple(inputs), output), None)
        return output

    if not torch.is_grad_enabled() or not any(ctx.needs_input_grad):
        with _no_grad():
            return _plain_result(recorder, run(), tensors, ctx)
    return _Tracked(session, cls, backward, ctx, inputs, tensors, is_tracked).result(run)


def _batched(session: Session, cls: type, forward: Any, setup: Any, inputs: list[Any]) -> Any:
    """Inside `vmap` alone, where nothing is tracked and the rule is made of the forward: its operations stand in the graph themselves."""
    recorder = session.recorder
    tracked = any(recorder.value_of(x).facts.requires_grad for x in pytree.tree_leaves(inputs) if recorder.is_stand_in(x))
    if setup is None or not _core.read(cls, "generate_vmap_rule") or not recorder.live.only_vmap() or tracked and torch.is_grad_enabled():
        raise Interrupt("torch-operation", f"{cls.__qualname__}.apply inside a function transform")
    with _no_grad():
        ctx = Context()
        ctx.needs_input_grad = (False,) * len(inputs)
        output = _core.captured(forward, tuple(inputs), None)
        if any(output is x for x in inputs) or not recorder.is_stand_in(output):
            raise Interrupt("torch-operation", f"{cls.__qualname__}.apply inside a function transform")
        _core.captured(setup, (ctx, tuple(inputs), output), None)
    return output


def _applier(cls: type) -> Any:
    """`cls.apply` as a function of its own: graphs name bound methods of torch's classes wrongly when they are written as code."""
    def apply(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)   # type: ignore[attr-defined]
    apply.__name__ = f"{cls.__name__}_apply"
    return apply


def make_function(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`MyFunction()`: deprecated and without state; torch warns of it here, once."""
    return callable_(*args, **kwargs)


@substitute(FunctionMeta.__init__)
def _new_function_class(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A class made inside gets its number from a counter of the process, which nobody reads."""
    return callable_(*args, **kwargs)


def is_function_class(callable_: Any) -> Any:
    """`make_function` for the classes it serves, else None."""
    found = is_a(callable_, type) and issubclass(callable_, _BASE) and callable_.__init__ is _BASE.__init__
    return make_function if found else None


def _methods(cls: type) -> tuple[Any, Any, Any]:
    """forward, setup_context (None where it is not overridden) and backward of a function class, read as the program would."""
    forward, setup = _core.read(cls, "forward"), _core.read(cls, "setup_context")
    backward = _core.read(cls, "backward")
    if backward is _BASE.backward:
        backward = _core.read(cls, "vjp")
    return forward, None if setup is torch.autograd.function._SingleLevelFunction.setup_context else setup, backward


def _bound(forward: Any, inputs: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with the forward's defaults filled in, as `apply` does where there is a setup_context."""
    bound = inspect.signature(forward).bind(*inputs, **kwargs)
    given = {id(x) for x in (*inputs, *kwargs.values())}
    bound.apply_defaults()
    if any(id(x) not in given and type(x) not in LEAF_TYPES for x in bound.args):
        raise Interrupt("torch-operation", "autograd.Function.apply with a default value that is no plain value")
    return list(bound.args), bound.kwargs


@contextlib.contextmanager
def _no_grad() -> Iterator[None]:
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)
    try:
        yield
    finally:
        torch._C._set_grad_enabled(before)


    def __init__(self, session: Session, cls: type, backward: Any, ctx: Context, inputs: list[Any], tensors: list[Any],
                 is_tracked: bool) -> None:

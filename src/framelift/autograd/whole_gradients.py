"""Gradients of the program's operators that read what tensors hold: each is one operator in the graph of the backward.

AOTAutograd traces the formula that an operator of `torch.library.custom_op` has for its gradient.  One that asks for
values (`offsets.tolist()`) cannot be traced, so the graph could not be compiled.  Where tracing fails for that reason,
the graph calls the operator that is defined here: it has the arguments and results of the forward, and runs the
formula on tensors with data.  Formulas that can be traced are traced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from .._core import is_a
from ..torch_ports.fakes import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, detect_fake_mode
from ..torch_ports.operators import OPDEFS, OpOverload, OpOverloadPacket
from ..vocabulary.scopes import scope

_SPACE = "framelift_gradients"
_OPERATORS = (OpOverload, OpOverloadPacket)
_UNTRACEABLE = (DataDependentOutputException, DynamicOutputShapeException)
#: (name of an operator, its definition) -> the operator of its gradient
_made: dict[str, tuple[Any, Any]] = {}


@scope
def whole_gradients(graph_module: GraphModule) -> Iterator[None]:
    """In this block, AOTAutograd can trace the gradients of all operators in a graph that have a formula."""
    changed = [one for one in _definitions(graph_module) if not is_a(one._backward_fn, _Backward)]
    formulas = [(one._setup_context_fn, one._backward_fn) for one in changed]
    try:
        for one, (setup, backward) in zip(changed, formulas):
            one._setup_context_fn, one._backward_fn = _Setup(setup), _Backward(backward, _gradient_of(one))
        yield
    finally:
        for one, (setup, backward) in zip(changed, formulas):
            one._setup_context_fn, one._backward_fn = setup, backward


def _definitions(graph_module: GraphModule) -> list[Any]:
    """The definitions of the operators in a graph whose gradient has a formula that one operator can stand for."""
    parts = [part for part in graph_module.modules() if is_a(part, GraphModule)]
    names = {str(node.target) for part in parts for node in part.graph.nodes if type(node.target) in _OPERATORS}
    found = {OPDEFS.get("::".join(name.split(".")[:2])) for name in names}
    return [one for one in found if one is not None and one._backward_fn is not None and _maps_tensors(one)]


def _maps_tensors(definition: Any) -> bool:
    """Return whether an operator takes and gives tensors, none of them in lists, and writes to none."""
    schema = definition._opoverload._schema
    kinds = [str(one.type) for one in (*schema.arguments, *schema.returns)]
    tensors = all(kind in ("Tensor", "Optional[Tensor]") or "Tensor" not in kind for kind in kinds)
    return tensors and not schema.is_mutable and all(str(one.type) == "Tensor" for one in schema.returns)


class _Setup:
    """What fills the context of a formula.  While it is traced, the context also has the arguments and the results."""

    def __init__(self, setup: Any) -> None:
        self.setup = setup

    def __call__(self, ctx: Any, inputs: tuple[Any, ...], output: Any, **named: Any) -> None:
        if self.setup is not None:
            self.setup(ctx=ctx, inputs=inputs, output=output, **named)
        from ..torch_ports.modes import FunctionalTensor

        if any(is_a(one, (FakeTensor, FunctionalTensor)) for one in inputs):
            ctx.framelift_call = (
                inputs,
                named.get("keyword_only_inputs", {}),
                output if type(output) is tuple else (output,),
            )


class _Backward:
    """A formula; or, where it cannot be traced, the operator of the gradient."""

    def __init__(self, backward: Any, gradient: Any) -> None:
        self.backward, self.gradient = backward, gradient

    def __call__(self, ctx: Any, *grads: Any) -> Any:
        call = vars(ctx).pop("framelift_call", None)
        if call is None:
            return self.backward(ctx, *grads)
        try:
            with _without_values():
                return self.backward(ctx, *grads)
        except _UNTRACEABLE:
            pass
        inputs, named, results = call
        wanted = [need and _is_tensor(one) for need, one in zip(ctx.needs_input_grad, inputs)]
        found = iter(self.gradient([*grads], [*results], wanted, *inputs, **named))
        return tuple([next(found) if want else None for want in wanted])


@contextlib.contextmanager
def _without_values() -> Iterator[None]:
    """Raise where a value is asked for, also while sizes are symbolic."""
    mode = detect_fake_mode()
    environment = None if mode is None else mode.shape_env
    if environment is None:
        yield
        return
    before = environment.settings
    environment.settings = dataclasses.replace(before, allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    try:
        yield
    finally:
        environment.settings = before


def _is_tensor(value: Any) -> bool:
    return is_a(value, torch.Tensor)


class _GradientContext:
    """The context of a formula that runs on tensors with data."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad, self.saved_tensors = needs_input_grad, ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value

    def mark_non_differentiable(self, *_tensors: Any) -> None:
        """The graph knows which gradients there are."""


def _gradient_of(definition: Any) -> Any:
    """The operator for the gradient of an operator."""
    name = definition._qualname
    if name in _made and _made[name][0] is definition:
        return _made[name][1]

    def gradient(grads: Any, results: Any, wanted: Any, *inputs: Any, **named: Any) -> Any:
        ctx = _GradientContext(tuple(wanted))
        arguments = definition._opoverload._schema.arguments  # the dispatcher leaves out what is as by default
        inputs += tuple([one.default_value for one in arguments[len(inputs) :] if not one.kwarg_only])
        named = {one.name: named.get(one.name, one.default_value) for one in arguments if one.kwarg_only}
        named = {"keyword_only_inputs": named} if named else {}
        if definition._setup_context_fn is not None:
            output = results[0] if len(results) == 1 else tuple(results)
            definition._setup_context_fn(ctx=ctx, inputs=inputs, output=output, **named)
        if ctx.materialize_grads:
            grads = [torch.zeros_like(one) if grad is None else grad for one, grad in zip(results, grads)]
        backward = definition._backward_fn
        found = (backward.backward if is_a(backward, _Backward) else backward)(ctx, *grads)
        held = [one for one in (*grads, *results, *inputs) if _is_tensor(one)]
        found = found if type(found) is tuple else (found,)
        return [_own(one, given, held) for one, given, want in zip(found, inputs, wanted) if want]

    def described(grads: Any, results: Any, wanted: Any, *inputs: Any, **named: Any) -> Any:
        return [one.new_empty(one.shape) for one, want in zip(inputs, wanted) if want]

    text = str(definition._opoverload._schema)
    own = "Tensor?[] framelift_grads, Tensor[] framelift_results, bool[] framelift_wanted"
    made = torch.library.custom_op(
        f"{_SPACE}::{re.sub(r'[^A-Za-z0-9_]', '_', name)}",
        gradient,
        mutates_args=(),
        schema=f"({own}, {text[text.index('(') + 1 : text.rindex(') ->')]}) -> Tensor[]",
    )
    made.register_fake(described)
    _made[name] = definition, made
    return made


def _own(grad: Any, given: torch.Tensor, held: list[torch.Tensor]) -> torch.Tensor:
    """A gradient as the graph knows it: contiguous, and in memory that no other tensor has."""
    if grad is None:
        raise RuntimeError("an operator gave no gradient for an input that needs one, and its formula cannot be traced")
    if grad.shape != given.shape or grad.dtype != given.dtype:
        grad = grad.sum_to_size(given.shape).to(given.dtype)
    made: torch.Tensor = grad.contiguous()
    if any(made.untyped_storage().data_ptr() == one.untyped_storage().data_ptr() for one in held):
        made = made.clone()
    held.append(made)
    return made

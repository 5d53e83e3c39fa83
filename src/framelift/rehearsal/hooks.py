"""Hooks on gradients: `Tensor.register_hook` in captured code.

On a tensor from outside, registering is an effect of the entry: the hook itself runs in plain Python when gradients come.  On a result, the hook
is rehearsed into a graph of its own, which the graph registers; such a hook may change nothing outside of itself.
"""

from __future__ import annotations

from typing import Any

import torch

from ..graph.functions import hook_gradient
from ..graph.values import Body
from ..reasons import Interrupt
from .bodies import fresh, values_in
from .higher_order import pure_body, record_step
from .registry import substitute

__all__ = ["REGISTERING", "Handle"]

#: what an effect of the entry may call to register a hook
REGISTERING = (torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook)


class Handle:
    """What registering gives: it can be dropped, and nothing else."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Interrupt("torch-operation", "the handle of a hook")

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise Interrupt("torch-operation", "the handle of a hook")


@substitute(torch.Tensor.register_post_accumulate_grad_hook)
def _register_post_accumulate(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def bound(tensor: Any, hook: Any) -> tuple[Any, Any]:
        return tensor, hook
    tensor, hook = bound(*args, **kwargs)
    value = session.recorder.value_of(tensor)
    if value.external is None or not value.facts.requires_grad or not value.facts.is_leaf:
        raise Interrupt("torch-operation", "Tensor.register_post_accumulate_grad_hook, but on a leaf from outside,")
    session.world.write("call", callable_, len(session.world.effects), (tensor, hook))
    return Handle()


@substitute(torch.Tensor.register_hook)
def _register_hook(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def bound(tensor: Any, hook: Any) -> tuple[Any, Any]:
        return tensor, hook
    tensor, hook = bound(*args, **kwargs)
    recorder = session.recorder
    value = recorder.value_of(tensor)
    if not value.facts.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if value.external is not None:
        session.world.write("call", callable_, len(session.world.effects), (tensor, hook))
        return Handle()
    facts = value.facts.but(requires_grad=False, is_leaf=True, is_conj=False, is_neg=False)
    grad = fresh(recorder, facts, "grad", exact=False)
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)   # as in a backward
    try:
        body = pure_body(session, "a tensor's hook", hook, (grad,))
    finally:
        torch._C._set_grad_enabled(before)
    if body.result is not None and not recorder.is_stand_in(body.result):
        raise Interrupt("torch-operation", "a tensor's hook that returns no tensor")
    module, around = body.close(recorder, values_in(recorder, (grad,)), body.result)
    record_step(recorder, hook_gradient, [value, Body(module, "hook_body"), tuple(around)], {}, [value, *around], effect=True)
    return Handle()

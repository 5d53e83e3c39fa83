"""Gradients of graphs that take or give tensors of wrapper subclasses.

A result that the program does not differentiate has no gradient.  Autograd gives a compiled backward plain zeros for
it, and the backward expects a tensor of the result's class: it gets zeros of that class here.
The history of an input that no result depends on is not run in eager mode: a compiled backward would run it, with no
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._core import is_a
from ...graph.metadata.wrappers import assembled, is_wrapper, taken_apart
from ...torch_ports.modes import DisableTorchFunction


def without_history_of(graph: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """Return `graph`, which is given the inputs at these places without their histories."""

    def run(*given: Any) -> Any:
        plain = list(given)
        with DisableTorchFunction():
            for place in places:
                plain[place] = given[place].detach()
        return graph(*plain)

    return run


def giving_tangents(graph: Callable[..., Any]) -> Callable[..., Any]:
    """Return `graph`, whose results have gradients of their class."""

    def run(*given: Any) -> Any:
        results = graph(*given)
        with DisableTorchFunction():
            made = [one for one in results if is_a(one, torch.Tensor) and _is_new(one)]
            if len(made) > 1 and any(is_wrapper(type(one)) for one in made):
                with torch.enable_grad():
                    _Given.apply([_zeros_of(one) if is_wrapper(type(one)) else None for one in made], *made)
        return results

    return run


def _is_new(tensor: torch.Tensor) -> bool:
    """Return whether a result comes from the compiled function itself: views of inputs and others were made again."""
    return tensor.grad_fn is not None and not tensor._is_view()


class _Given(torch.autograd.Function):
    """The results themselves, each with a gradient if any has one."""

    @staticmethod
    def forward(ctx: Any, zeros: Sequence[Callable[[], torch.Tensor] | None], *results: torch.Tensor) -> Any:
        ctx.zeros = zeros
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(*results)  # so that they stay the objects they are, with this history
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        return None, *(
            zeros() if given is None and zeros is not None else given for zeros, given in zip(ctx.zeros, gradients)
        )


def _zeros_of(tensor: Any) -> Callable[[], torch.Tensor]:
    """Return what makes zeros like a tensor, which is not kept; inner tensors without gradients are."""
    kind, size, stride = type(tensor), tensor.size(), tensor.stride()
    if is_wrapper(kind):
        names, context = taken_apart(tensor)
        parts = {name: _zeros_of(getattr(tensor, name)) for name in names}
        return lambda: assembled(kind, {name: make() for name, make in parts.items()}, context, size, stride)
    dtype, device = tensor.dtype, tensor.device
    if not (dtype.is_floating_point or dtype.is_complex):
        return lambda: tensor
    return lambda: torch.empty_strided(size, stride, dtype=dtype, device=device).zero_()

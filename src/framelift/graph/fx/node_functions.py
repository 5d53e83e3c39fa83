"""Functions that graphs call: what a captured `torch.autograd.Function` becomes when its graph runs.

One class serves all of them.  It runs two graphs, so autograd, AOTAutograd and plain execution see an ordinary
custom function whose Python is already recorded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.utils.checkpoint
from torch.autograd.function import once_differentiable
from torch.fx.graph_module import GraphModule

from ... import _core
from ..._core import is_a
from ...torch_ports.modes import FunctionalTensor, len_torch_dispatch_stack
from ...torch_ports.operators import tag_activation_checkpoint
from ...torch_ports.state import get_mkldnn_enabled, set_mkldnn_enabled


class _Call(NamedTuple):
    """The arguments of `_CapturedFunction.forward` beside the tensors; the fields are those of `apply_function`."""

    forward: GraphModule
    backwards: tuple[GraphModule, ...]
    given: tuple[tuple[bool, ...], ...]
    first: tuple[int, ...]
    saved: tuple[bool, ...]
    dirty: tuple[int, ...]
    constant: tuple[int, ...]
    materialize: bool


class _CapturedFunction(torch.autograd.Function):
    """Runs the two graphs of a captured function."""

    @staticmethod
    def forward(ctx: Any, call: _Call, around: tuple[torch.Tensor, ...], *inputs: torch.Tensor) -> Any:
        outputs, kept = call.forward(*(inputs[i] for i in call.first), *around)
        ctx.call = call
        ctx.set_materialize_grads(call.materialize)
        if call.dirty:
            ctx.mark_dirty(*(inputs[i] for i in call.dirty))
        if call.constant:
            ctx.mark_non_differentiable(*(outputs[i] for i in call.constant))
        ctx.save_for_backward(*(value for value, saved in zip(kept, call.saved) if saved))
        ctx.others = [value for value, saved in zip(kept, call.saved) if not saved]
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, saved, others = ctx.call, iter(ctx.saved_tensors), iter(ctx.others)
        kept = [next(saved if is_saved else others) for is_saved in call.saved]
        given = tuple(grad is not None for grad in grads)
        if not any(given):
            return (None,) * len(ctx.needs_input_grad)
        backward = call.backwards[call.given.index(given)]
        return (None, None, *backward(*(grad for grad in grads if grad is not None), *kept))


class _CapturedOnce(_CapturedFunction):
    """The same for a backward that was marked as differentiable once."""

    backward = staticmethod(once_differentiable(_CapturedFunction.backward))


def apply_function(
    forward: GraphModule,
    backwards: tuple[GraphModule, ...],
    around: tuple[torch.Tensor, ...],
    *inputs: torch.Tensor,
    given: tuple[tuple[bool, ...], ...],
    first: tuple[int, ...],
    saved: tuple[bool, ...],
    dirty: tuple[int, ...],
    constant: tuple[int, ...],
    materialize: bool,
    once: bool,
) -> Any:
    """Apply a captured autograd function to `inputs`, the tensors it was applied to.

    `forward` takes the distinct inputs (places `first`), then `around`, the tensors its Python found elsewhere; it
    gives the outputs and what the backward needs.  A backward takes the gradients of the outputs, then that; it
    gives one gradient per input.  There is one backward for each pattern of outputs that have a gradient,
    `given`.  `saved` says which of what is kept was saved by `save_for_backward`; `dirty` are inputs written in
    place, `constant` outputs marked as not differentiable.
    """
    kind = _CapturedOnce if once else _CapturedFunction
    return kind.apply(_Call(forward, backwards, given, first, saved, dirty, constant, materialize), around, *inputs)


def _is_traced() -> bool:
    """Return whether a compiler is tracing the graph that calls here, rather than running it."""
    return len_torch_dispatch_stack() > 0


def checkpoint_region(region: GraphModule, *args: Any, preserve_rng_state: bool) -> Any:
    """A checkpointed region that draws random numbers, or that chooses what it keeps (then it has a note that says
    how).

    Compilers that trace the graph see to it that the recomputation draws the same ones; run as it is, checkpoint itself
    must.
    """
    if _is_traced():
        return tag_activation_checkpoint(region, *args, use_reentrant=False)
    contexts = region.meta.get("_checkpoint_context_fn", torch.utils.checkpoint.noop_context_fn)
    return torch.utils.checkpoint.checkpoint(
        region, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state, context_fn=contexts
    )


def compile_region(region: GraphModule, name: str, *args: Any) -> Any:
    """A region that a compiler compiles once; run as it is, it is a call."""
    return torch.ops.higher_order.invoke_subgraph(region, name, *args) if _is_traced() else region(*args)


def hook_gradient(tensor: torch.Tensor, hook: GraphModule, around: tuple[torch.Tensor, ...]) -> None:
    """`tensor.register_hook`, with a hook that was recorded: its graph takes the gradient, then `around`."""
    tensor.register_hook(lambda grad: hook(grad, *around))


def written_out_lstm(*args: Any) -> Any:
    """`torch.lstm` for compilers, which write it out: torch 2.11 and 2.12 then give states one dimension too many."""
    output, *states = torch.lstm(*args)
    return output, *(state if state.dim() == first.dim() else state.squeeze(1) for state, first in zip(states, args[1]))


def trained_lstm(*args: Any) -> Any:
    """`torch.lstm` whose weights want gradients.

    Where the input wants none, AOTAutograd takes a kernel of oneDNN's for it whose backward it cannot compile; with
    that library off it does not.
    """
    if not is_a(args[0], FunctionalTensor):
        return torch.lstm(*args)
    before = get_mkldnn_enabled()
    try:
        set_mkldnn_enabled(False)
        return written_out_lstm(*args)
    finally:
        set_mkldnn_enabled(before)


# ---- Functions with which a graph checks its assumptions on the way, before something that cannot be undo ----


class AssumptionFailed(Exception):
    """The data is not what the rehearsal took it to be.  Never leaves framelift: the frame runs eagerly."""


def check_assumptions(*wrong: torch.Tensor) -> None:
    """Each is true where an assumption is wrong.  Nothing has happened yet, so plain Python may have the call."""
    if any(map(bool, wrong)):
        _core.undone()
        raise AssumptionFailed

"""`torch.autograd.Function` in exported programs: one node, torch's own operator for it, with two captured graphs.

Tracing would go through such a function and leave the operations of its forward, whose gradient is another one.
What a graph of ATen operators cannot keep of a gradient (hooks, gradients that may be None) is refused.
Graphs without autograd have no need of this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

from .._core import insist
from ..exc import Unsupported
from ..graph.fx.node_functions import apply_function, hook_gradient
from ..graph.fx.targets import getter_target
from ..torch_ports.autograd import autograd_function_module as torchs
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.graphs import pytree
from ..vocabulary.scopes import scope

_DATA = getter_target("data").fx_target
#: torch's operator takes the graphs as they are made here since its helper exists
_HAS_OPERATOR = hasattr(torchs, "DynamoAutogradFunctionTraceHelper")


def keep_gradients(module: torch.fx.GraphModule, tracked: bool) -> bool:
    """Make a captured graph such that tracing keeps its functions whole where gradients are `tracked`.

    `x.data` becomes `x.detach()`: an attribute is no operator, so tracing would take its value for a constant.
    Return whether the graph differentiates.
    """
    found = False
    for part in module.modules():
        changed = False
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            found = found or node.target is torch.autograd.grad
            if tracked and node.target is hook_gradient:  # no ATen operator changes gradients
                raise refused("a hook on a gradient")
            if node.target is _DATA or tracked and node.target is apply_function:
                node.target, changed = torch.detach if node.target is _DATA else _traced_function, True
        if changed:
            part.recompile()
    return found


def refused(what: str) -> Unsupported:
    """The error for what would be exported with another gradient than the program's."""
    return Unsupported(
        f"export: {what} cannot be part of an exported program, whose gradient would be different. "
        "Export under torch.no_grad() if the program is for inference only",
        "torch-operation",
    )


def _traced_function(
    forward: Any, backwards: tuple[Any, ...], around: tuple[Any, ...], *inputs: torch.Tensor, **said: Any
) -> Any:
    """As `apply_function`; while a graph is traced, one node of it."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, track_tensor_tree

    from ..torch_ports.operators import reenter_make_fx, unique_graph_id

    mode = get_proxy_mode()
    if mode is None:
        return apply_function(forward, backwards, around, *inputs, **said)
    if len(backwards) > 1 or said["dirty"] or not _HAS_OPERATOR:
        raise refused("an autograd function that writes to its arguments or whose gradients may each be None")
    operands, count = (*inputs, *around), len(inputs)

    def fwd(*args: Any) -> Any:
        outputs, kept = forward(*(args[i] for i in said["first"]), *args[count:])
        return tuple(outputs), tuple(kept)

    def bwd(*args: Any) -> Any:
        return (*backwards[0](*args), *(None for _ in around))

    with disable_proxy_modes_tracing():
        outputs, kept = fwd(*operands)
        grads = [output.detach().clone() for output in outputs]
        kept = [value.detach() if isinstance(value, torch.Tensor) else value for value in kept]
    graphs = reenter_make_fx(fwd)(*operands), reenter_make_fx(bwd)(*grads, *kept)
    number, name = unique_graph_id(mode, prefix="function_forward")
    mode.tracer.root.register_module(name, graphs[0])
    mode.tracer.root.register_module(f"function_backward_{number}", graphs[1])
    saved = [i for i, is_saved in enumerate(said["saved"]) if is_saved]
    options = {"non_differentiable_idx": list(said["constant"]), "saved_for_backward_idx": saved}
    proxies = pytree.tree_map(mode.tracer.unwrap_proxy, (*graphs, *operands))
    made = mode.tracer.create_proxy("call_function", torchs.autograd_function_apply, proxies, options)
    with disable_proxy_modes_tracing():
        result = torchs.autograd_function_apply(*graphs, *operands, **options)
    return track_tensor_tree(result, made, constant=None, tracer=mode.tracer)


_watched = threading.local()
#: the gradient is that of the forward's operations
_SAME_GRADIENT = (torch.utils.checkpoint.CheckpointFunction,)


@scope
def watching_functions(met: Callable[[bool], None]) -> Iterator[None]:
    """Call `met` where this thread's program applies an autograd function; with whether the call tracks a gradient."""
    apply = torch.autograd.Function.__dict__["apply"]

    def watched(cls: Any, *args: Any, **kwargs: Any) -> Any:
        asked = getattr(_watched, "met", None)
        if asked is not None and cls not in _SAME_GRADIENT and is_grad_enabled() and _is_traced(args):
            asked(any(isinstance(x, torch.Tensor) and x.requires_grad for x in args))
        return apply.__get__(None, cls)(*args, **kwargs)

    before = getattr(_watched, "met", None)

    def end() -> None:
        torch.autograd.Function.apply = apply
        _watched.met = before

    try:
        _watched.met = met
        torch.autograd.Function.apply = classmethod(watched)
        yield
    finally:
        insist(end)


def _is_traced(args: Any) -> bool:
    """Return whether the program itself calls: below the tracing of an operator there is no mode that traces."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    return get_proxy_mode() is not None and any(x.is_floating_point() or x.is_complex() for x in tensors)

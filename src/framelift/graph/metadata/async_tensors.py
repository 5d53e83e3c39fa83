"""Results of collectives that may not have arrived yet: torch's AsyncCollectiveTensor, a wrapper that waits when it is
used.

Compilers take what such a tensor holds, and that has no history: the gradient would end there.  So graphs are given
the tensor it waits for, with a history that leads to the wrapper.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from ...vocabulary.class_reads import name_of

_MODULE = "torch.distributed._functional_collectives"


def is_async(kind: type) -> bool:
    """Return whether tensors of this class wait for a collective."""
    return name_of(kind) == "AsyncCollectiveTensor" and kind is getattr(
        sys.modules.get(_MODULE), "AsyncCollectiveTensor", None
    )


def arrived(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor of the same memory and history, once the collective is over."""
    with torch.enable_grad():  # as an input of a graph, which may turn gradients on
        found: torch.Tensor = _Arrived.apply(tensor)
    return found


class _Arrived(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any) -> torch.Tensor:
        held: torch.Tensor = tensor.trigger_wait()
        return held.view_as(held)  # history is written into it

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]

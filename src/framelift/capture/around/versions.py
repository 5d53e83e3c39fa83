"""Version counters of inputs that a compiled graph writes: compilers write an input once, whatever the program does.

`tensor._version` counts the writes of eager mode.  Where autograd may have saved a tensor the counter is left alone:
autograd compares it with what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _core
from ...recording.finished import Finished

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def counts_writes(finished: Finished) -> bool:
    """Return whether the counters can be what they are in eager mode."""
    if not finished.writes or finished.arguments is not None:  # numbers among the inputs: others than the tensors
        return False
    inputs = finished.inputs
    if any(_core.of_tensor(one, "requires_grad") for one in inputs) and not finished.without_grad:
        return False
    return all(type(inputs[i]) in _PLAIN and not inputs[i].is_inference() for i, _ in finished.writes)


def counting_writes(graph: Callable[..., Any], writes: Sequence[tuple[int, int]]) -> Callable[..., Any]:
    """The graph, with the counters of its inputs as after the program's own writes."""

    counts = tuple([count for _, count in writes])

    def run(*inputs: Any) -> Any:
        written = tuple([inputs[i] for i, _ in writes])
        before = _core.versions(written)
        result = graph(*inputs)
        _core.count_writes(written, before, counts)
        return result

    return run

"""What a rehearsal recorded, once it is over: the record that backends and entries are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..graph.fx.values import Value

__all__ = ["Finished", "counted_writes"]


@dataclass(frozen=True)
class Finished:
    """What a rehearsal recorded.

    `inputs` are the real tensors in placeholder order; with symbolic numbers, `arguments` are all inputs of the
    graph: tensors, names of ints, floats.  `mutated` are the indices of those whose memory the graph writes,
    `writes` pairs of such an index and how often eager mode writes it, where no other input shares that memory,
    `shared` the groups of indices whose memory is one storage: with a mutated input in it, a group is a fact that
    the graph was built on.  `left_state` are calls that bring torch's global state to where the program left it;
    `in_region`: all of the graph's autocast belongs to the region that the program leaves open.  `stays` is the
    gravest reason of fakes.py why an operation must stay.  `changes_state`: the graph has nodes that set torch's
    global state for those after them.  `without_grad`: the whole graph is to be compiled and run without grad
    mode.  The last `violations` outputs are not the program's: each is true where an assumption does not hold for
    the data.  `settings` are those that the graph is to be compiled and run under, where it is not called under
    them (graph/state/settings.py).  `transforms`: the graph opens and leaves function transforms.
    `without_history` are outputs that the graph gives without a history, and what they are to become
    (graph/analysis/replay.py).
    """

    graph_module: GraphModule = field(repr=False)
    inputs: list[torch.Tensor] = field(repr=False)
    n_ops: int
    mutated: tuple[int, ...]
    shared: tuple[tuple[int, ...], ...]
    left_state: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]
    violations: int = 0
    stays: int = 0
    changes_state: bool = False
    without_grad: bool = False
    arguments: list[Any] | None = field(default=None, repr=False)
    without_history: tuple[tuple[int, str], ...] = ()
    settings: tuple[Any, ...] | None = None
    transforms: bool = False
    in_region: bool = False
    writes: tuple[tuple[int, int], ...] = ()


def counted_writes(
    written: Sequence[Value], inputs: Sequence[Value], groups: Mapping[int, Sequence[int]]
) -> tuple[tuple[int, int], ...]:
    """How often eager mode writes an input: (its index, how often).

    Left out are those that share memory with another input (`groups`: id of a storage -> indices), and those that are
    written past their version counter, as by `x.data.add_(1)`.
    """
    found = []
    for i, value in enumerate(inputs):
        writes = [one for one in written if one.storage is value.storage]
        if writes and len(groups[id(value.storage)]) == 1 and all(one.view != "detached" for one in writes):
            found.append((i, len(writes)))
    return tuple(found)

"""The recording of a finished rehearsal: backends and entries are made from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.graph_module import GraphModule

from ..graph.fx.targets import getter_target, target_of
from ..graph.fx.values import Step, Value
from ..torch_ports.tensors import TensorBase

#: they give a tensor without history that is written together with its source
_DETACHING = tuple(map(target_of, (torch.detach, torch.Tensor.detach, TensorBase.detach)))


@dataclass(frozen=True)
class Finished:
    """The recording of a finished rehearsal.

    `inputs` are the real tensors in placeholder order; with symbolic numbers, `arguments` are all inputs of the
    graph: tensors, names of ints, floats.  `mutated` are the indices of those whose memory the graph writes,
    `writes` pairs of such an index and how often eager mode counts a write to it, where that is known,
    `shared` the groups of indices whose memory is one storage: with a mutated input in it, a group is a fact that
    the graph was built on.  `left_state` are calls that bring torch's global state to where the program left it;
    `in_region`: all of the graph's autocast belongs to the region that the program leaves open.  `effect_level` is the
    gravest reason of fakes.py why an operation must stay.  `changes_state`: the graph has nodes that set torch's
    global state for those after them.  `without_grad`: the whole graph is to be compiled and run without grad
    mode.  The last `violations` outputs are not the program's: each is true where an assumption does not hold for
    the data; `undoes`: inputs may be written to when that is found.  `settings` are those that the graph is to be
    compiled and run under, where it is not called under them (graph/state/settings.py).  `transforms`: the graph
    opens and leaves function transforms.
    `without_history` are outputs that a compiled graph gives without their history, and what they are to become
    (graph/analysis/replay.py).
    `unreached` are the arguments that have a history and no part in that of any result, where compilers do not find
    them themselves.
    """

    graph_module: GraphModule = field(repr=False)
    inputs: list[torch.Tensor] = field(repr=False)
    n_ops: int
    mutated: tuple[int, ...]
    shared: tuple[tuple[int, ...], ...]
    left_state: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]
    violations: int = 0
    effect_level: int = 0
    changes_state: bool = False
    without_grad: bool = False
    arguments: list[Any] | None = field(default=None, repr=False)
    without_history: tuple[tuple[int, str], ...] = ()
    settings: tuple[Any, ...] | None = None
    transforms: bool = False
    in_region: bool = False
    writes: tuple[tuple[int, int], ...] = ()
    undoes: bool = False
    unreached: tuple[int, ...] = ()


def counted_writes(written: Sequence[Value], inputs: Sequence[Value]) -> tuple[tuple[int, int], ...]:
    """How often eager mode counts a write to an input: (its index, how often).

    Left out is memory that is written by way of a tensor of which it is not known whether it has a counter of its own.
    """
    counts = {id(value): 0 for value in inputs}
    unknown = set()
    for one in written:
        try:
            source = counter_of(one)
        except LookupError:
            unknown.add(one.storage)
            continue
        if source is not None and id(source) in counts:
            counts[id(source)] += 1
    storages = {one.storage for one in written} - unknown
    return tuple([(i, counts[id(value)]) for i, value in enumerate(inputs) if value.storage in storages])


def counter_of(value: Value) -> Value | None:
    """The input, or the first of the tensors made inside, with whose counter torch counts a write to a tensor: views
    and `detach` share the counter of what they were made of.  None: it has one of its own, as what `data` gives.
    Raises LookupError where that is not known.
    """
    storage = value.storage
    while value.external is None:
        step = value.step
        if type(step) is not Step:
            raise LookupError
        if step.target is getter_target("data"):
            return None
        above = [one for one in step.inputs if one.storage is storage]
        if not above and not storage.external:
            return value
        if not above or value.view == "detached" and step.target not in _DETACHING:
            raise LookupError
        value = above[0]
    return value

"""Inputs of a graph that share memory which the graph writes to: what compiled code and entries rely on.

A graph that runs as it was recorded is right wherever its inputs lie.  A compiler of functional graphs (AOTAutograd)
takes inputs that overlap for views of one tensor, and writes their places in it into the code.  Inputs that share
memory and do not overlap are inputs like any others.  Two storages may have memory in common that torch did not
allocate (arrays of numpy): compilers do not see that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx.graph_module import GraphModule

from ... import _core
from ..metadata.wrappers import is_wrapper, leaf_tensors

#: in a graph's meta: how its inputs share memory, for the keys of what is compiled
_KEY = "memory_pattern"


@dataclass(frozen=True, slots=True)
class Sharing:
    """The inputs of a graph, wrapper subclasses replaced by their inner tensors, and the places of those that are
    written to; None where these are not known.
    """

    tensors: tuple[Any, ...]
    written: tuple[int, ...] | None
    has_wrappers: bool

    def pattern(self, exact: bool) -> tuple[int, ...]:
        """Which of them share memory that is written to; `exact`: and where those lie that overlap."""
        return _core.memory_pattern(self.tensors, self.written, exact)

    @property
    def is_shared(self) -> bool:
        """True if any of them do."""
        return self.pattern(exact=False) != tuple(range(len(self.tensors)))

    @property
    def overlaps(self) -> bool:
        """True if some overlap in memory that is written to."""
        return _core.memory_overlap(self.tensors, self.written) > 0

    @property
    def is_hidden(self) -> bool:
        """True if some overlap where no compiler sees it: in several storages, as another type, or conjugated."""
        kind, read = _core.memory_overlap(self.tensors, self.written), _core.of_tensor
        return kind > 1 or kind > 0 and any(read(one, "is_conj") or read(one, "is_neg") for one in self.tensors)

    def note(self, graph_module: GraphModule) -> None:
        """Make it a part of the graph's key."""
        graph_module.meta[_KEY] = (*self.pattern(exact=True), *_core.memory_pattern(self.tensors, None, False))


def sharing_of(inputs: Sequence[Any], written: tuple[int, ...]) -> Sharing:
    """How the inputs of a graph share memory, those at the places `written` being written to."""
    if any(is_wrapper(type(one)) for one in inputs):
        return Sharing(leaf_tensors(inputs), None, True)
    return Sharing(tuple(inputs), written, False)


def memory_key(graph_module: GraphModule, example_inputs: Sequence[Any]) -> tuple[int, ...]:
    """Return how a graph's inputs share memory, as far as it decides about the code.

    Of graphs that were not captured, all inputs may be written to.
    """
    noted: tuple[int, ...] | None = graph_module.meta.get(_KEY)
    return _core.memory_pattern(tuple(example_inputs), None, True) if noted is None else noted


def groups_as_recorded(sharing: Sharing, groups: Sequence[Sequence[int]]) -> bool:
    """Return whether the inputs share memory that is written to as these groups of places do."""
    firsts = list(range(len(sharing.tensors)))
    for group in groups:
        if sharing.written is None or not set(group).isdisjoint(sharing.written):
            for i in group:
                firsts[i] = group[0]
    return sharing.pattern(exact=False) == tuple(firsts)

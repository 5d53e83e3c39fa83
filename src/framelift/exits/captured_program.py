"""What a capture gives to the stages around a graph, to backends and to the store: one record.

It is made once for a rehearsal, and once for a capture that was kept on disk; nobody behind it asks which of the two.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bytecode.resume import Point
from ..graph.fx.named_places import NamedPlaces
from ..graph.symbols.environment import Symbols
from ..guards.kinds import Guard
from ..recording.finished import Finished
from ..vocabulary.places import Place, summary
from .entry import EntryPlan


@dataclass(frozen=True, slots=True)
class GraphCompileReason:
    """Why a graph ends where it does: `graph_module.compile_subgraph_reason`, which backends of torch.compile read."""

    reason: str
    user_stack: list[Any] = field(default_factory=list)
    graph_break: bool = True

    @classmethod
    def of(cls, point: Point | None, sentence: str = "", places: tuple[Place, ...] = ()) -> GraphCompileReason:
        """Why a graph ends at this point, with the sentence about a graph break and its places; without one: at the end
        of the frame.
        """
        if point is None:
            return cls("return_value", graph_break=False)
        return cls(sentence or "graph break", list(summary(places)))


@dataclass(frozen=True, slots=True)
class SeenInRehearsal:
    """What a rehearsal has seen of a program, and nothing on disk says."""

    code: types.CodeType  # the root
    guards: Sequence[Guard]
    memo: Mapping[int, Any]  # external tensors by their id: `origin` says where one was found
    places: NamedPlaces
    relied: bool  # on a backend that runs the graph as it is
    annotations: Sequence[Any]  # of CUDA graphs


@dataclass(frozen=True, slots=True, eq=False)
class CapturedProgram:
    """A graph, the entry around it, and what both need at a call."""

    plan: EntryPlan
    finished: Finished
    point: Point | None  # where the frame is handed over, at a graph break
    ending: GraphCompileReason
    overrides: bool  # the graph has taken over what modes and tensor subclasses do
    leaves_modes: bool  # the entry puts modes on torch's stack
    reached: tuple[Any, ...]  # tensors to whose gradients the graph adds
    symbols: Symbols | None  # that stand for numbers in the graph
    input_facts: Callable[[], dict[int, Any]]  # of tensors, by their id
    seen: SeenInRehearsal | None  # None: the capture was loaded

    @property
    def given(self) -> list[Any]:
        """All inputs of the graph, in placeholder order."""
        return self.finished.inputs if self.finished.arguments is None else self.finished.arguments

    @property
    def has_graph(self) -> bool:
        """True if there is something to compute."""
        return bool(self.finished.n_ops or self.plan.outputs)

"""The parts of a run as ranges of a profiler: gather, graph, effects.

Only while somebody profiles: then the native core calls `EntryRanges` at each run, and the graph that the entry calls
is, for that run, one that shows where it begins and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..._core import is_a
from ...torch_ports.state import RecordFunctionFast


class EntryRanges:
    """Begins the ranges of a run of one entry, whose names are `space`; returns what ends them."""

    __slots__ = ("name", "space")

    def __init__(self, space: dict[str, Any], name: str) -> None:
        self.space = space
        self.name = name

    def __call__(self) -> Callable[[], None] | None:
        graph = self.space.get("graph")
        if graph is None or is_a(graph, _Ranged):  # another thread, or a run inside of this one
            return None
        ranged = self.space["graph"] = _Ranged(graph, self.name)

        def end() -> None:
            self.space["graph"] = graph
            ranged.next("")

        return end


class _Ranged:
    """A graph that is shown; calls of other threads go straight through."""

    def __init__(self, graph: Callable[..., Any], name: str) -> None:
        self.graph = graph
        self.name = name
        self.thread = threading.get_ident()
        self.range: Any = None
        self.next("gather")

    def next(self, what: str) -> None:
        """The part at hand ends, and another begins."""
        if self.range is not None:
            self.range.__exit__(None, None, None)
        self.range = RecordFunctionFast(f"framelift {what}: {self.name}") if what else None
        if self.range is not None:
            self.range.__enter__()

    def __call__(self, *inputs: Any) -> Any:
        if threading.get_ident() != self.thread:
            return self.graph(*inputs)
        self.next("graph")
        try:
            return self.graph(*inputs)
        finally:
            self.next("effects")

"""What was captured: one record per entry, and the process's counts.  Data only."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

from ..guard.explain import described, path

__all__ = ["Capture", "Counts", "counts"]


@dataclass(slots=True)
class Capture:
    """One capture: what `entry.info` holds."""

    name: str
    file: str
    line: int
    guard_count: int = 0
    graph_module: Any = None
    source: str = ""            # the entry, as Python source
    operations: int = 0
    replayable: bool = False    # a call whose graph fails is run again in plain Python
    reason: str = ""            # why the frame runs in plain Python, "" when it was captured
    reason_id: str = ""
    where: str = ""             # the user's line where capturing ended
    recompile: str = ""         # what failed before, "" for the first capture
    cpu_seconds: float = 0.0
    explain: Any = None         # the guard program; holds user objects weakly

    @property
    def guards(self) -> list[str]:
        """The guards as text, in the order of the program."""
        if self.explain is None:
            return []
        rows = ((path(self.explain, node), checks) for node, checks in described(self.explain))
        return [f"{where} {kind} {value!r}" for where, checks in rows for kind, value in checks]

    def row(self) -> dict[str, Any]:
        """What the process's counts keep: plain values only."""
        return {"name": self.name, "file": self.file, "line": self.line, "graphs": int(self.graph_module is not None),
                "guards": self.guard_count, "ops": self.operations, "reason": self.reason, "cpu_s": self.cpu_seconds}


@dataclass(slots=True)
class Counts:
    """The process's counts since the last reset."""

    graphs: int = 0
    captures: int = 0
    guards: int = 0
    breaks: collections.Counter[str] = field(default_factory=collections.Counter)
    frames: list[dict[str, Any]] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


counts = Counts()

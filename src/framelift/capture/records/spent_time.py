"""Where the time of a capture's rehearsals went: the program's functions by who calls them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_MOST = 200  # rows of one capture; the cheapest are left out


@dataclass(frozen=True, slots=True)
class Spent:
    """Rehearsing time of one function, called by the row before it of the next smaller depth."""

    depth: int
    name: str
    file: str
    line: int
    calls: int
    own: float  # seconds in its own code, and in what framelift did for it
    total: float  # seconds with all that it calls


@dataclass(slots=True)
class _Node:
    calls: int = 0
    own: float = 0.0
    total: float = 0.0
    callees: dict[tuple[str, str, int], _Node] = field(default_factory=dict)


class SpentTime:
    """Measurements of the sessions of one capture. Plain values, made into rows for those who read them."""

    __slots__ = ("_trees",)

    def __init__(self, sessions: Iterable[Any] = ()) -> None:
        self._trees = tuple(
            [
                [
                    (depth, (code.co_qualname, code.co_filename, code.co_firstlineno), calls, own, total)
                    for depth, code, calls, own, total in session.time_tree
                ]
                for session in sessions
            ]
        )

    def rows(self) -> tuple[Spent, ...]:
        """All sessions as one tree: each function before those it calls."""
        top = _Node()
        for tree in self._trees:
            path = [top]
            for depth, key, calls, own, total in tree:
                del path[depth + 1 :]
                node = path[-1].callees.setdefault(key, _Node())
                node.calls += calls
                node.own += own
                node.total += total
                path.append(node)
        rows: list[Spent] = []
        waiting = [(0, key, node) for key, node in reversed(top.callees.items())]
        while waiting:
            depth, (name, file, line), node = waiting.pop()
            rows.append(Spent(depth, name, file, line, node.calls, node.own, node.total))
            waiting += [(depth + 1, key, one) for key, one in reversed(node.callees.items())]
        if len(rows) <= _MOST:
            return tuple(rows)
        least = sorted([row.total for row in rows], reverse=True)[_MOST]  # a callee never takes longer than its caller
        return tuple([row for row in rows if row.total > least])

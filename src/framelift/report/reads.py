"""The line that uses a value of a container.

A container is let in where the program first takes hold of it, and its contents with it; what is done with one of
them is seen in the graph: the operations' lines are searched for the name that the value has in there.
"""

from __future__ import annotations

import linecache
import re
from typing import Any

from ..vocabulary.places import Place, expression, is_library
from .graphs import FRAME

_LAST = re.compile(r"(?:\['(\w+)'\]|\.([A-Za-z_]\w*))$")


def lines_of(graph_module: Any) -> tuple[tuple[str, int, str], ...]:
    """The user's lines (file, line, function) that the operations of a graph came from, in order."""
    found: dict[tuple[str, int, str], None] = {}
    for node in graph_module.graph.nodes if graph_module is not None else ():
        for frame in FRAME.finditer(node.stack_trace or ""):
            if not is_library(frame["file"]):
                found[frame["file"], int(frame["line"]), frame["function"]] = None
    return tuple(found)


def reading_place(origin: str, place: Place | None, lines: tuple[tuple[str, int, str], ...]) -> Place | None:
    """The expression in `lines` that takes the value called `origin` out of what holds it; None: there is none."""
    name = _LAST.search(origin)
    if name is None:
        return None
    key = name[1] or name[2]
    text = re.compile(rf"[A-Za-z_][\w.]*(?:\[\s*[\"']{key}[\"']\s*\]|\.{key}\b)")
    if place is not None and text.search(expression(place)):
        return place
    for file, line, function in lines:
        found = text.search(linecache.getline(file, line))
        if found is not None:
            return Place(file, line, line, found.start(), found.end(), function)
    return None

"""The notes of compiled callables as reports see them: functions, values and places by the user's names."""

from __future__ import annotations

import functools
import linecache
import re
from typing import Any

from ..capture.records.captures import Note, is_torchs_own
from ..capture.records.user_names import Names
from ..vocabulary.places import Place, brief, caret, expression, is_library
from .graphs import FRAME
from .model import Source


class Event:
    """A note, with its function's id and its values' names as reports show them."""

    def __init__(self, note: Note, names: Names) -> None:
        self.note = note
        self.names = names
        code = names.code if note.root else None
        self.name = names.title if code is not None else note.name
        self.file, self.line = (code.co_filename, code.co_firstlineno) if code is not None else (note.file, note.line)
        self.function = f"{self.name}@{brief(self.file)}:{self.line}"
        self.library = is_torchs_own(note.root, self.file)
        self.stack = dict(note.resumed.names) if note.resumed is not None else {}
        full = note.capture()
        self.lines = lines_of(full.graph_module) if full is not None else ()  # of its operations

    def origin(self, path: str) -> str:
        """A guarded value's path in the user's words."""
        path = self.names.origin(path, self.note.root)
        return self.note.resumed.said(path) if self.note.resumed is not None else path

    def place(self, path: str, place: Place | None) -> Place | None:
        """Where a value is read: by an operation's line, where one is seen; else where the program got it."""
        return self.reading(path, place) or self.names.place(path, place, self.note.root)

    def reading(self, path: str, place: Place | None) -> Place | None:
        """The line that uses a value out of a container."""
        return reading_place(self.origin(path), place, self.lines)

    def text(self, text: str) -> str:
        """A sentence that mentions such paths."""
        text = self.names.text(text, self.note.root)
        return self.note.resumed.said(text) if self.note.resumed is not None else text

    @property
    def definition(self) -> Place:
        """The line of the function's `def`."""
        return Place(self.file, self.line, self.line, -1, -1, self.name)

    @property
    def cause(self) -> tuple[Any, ...]:
        """The key by which breaks are grouped."""
        assert self.note.stop is not None
        return self.note.stop.cause

    @property
    def change(self) -> tuple[Any, ...]:
        """The key by which recompiles are grouped: the value, and the line that uses it, or the function that has
        it.
        """
        miss = self.note.miss
        assert miss is not None
        used = self.reading(miss.origin, miss.place) if miss.kind != "RELATION" else None
        return used or self.function, self.origin(miss.origin), miss.kind

    @property
    def follows_from_a_break(self) -> bool:
        """True if what ended it is no cause of its own, but follows from the break before it."""
        return self.note.stop is not None and self.note.stop.follows_from(self.note.resumed)


@functools.cache
def source(place: Place) -> Source:
    """A place with its text."""
    return Source(
        brief(place.file),
        place.file,
        place.line,
        place.column,
        place.end_line,
        place.end_column,
        place.function,
        expression(place),
        caret(place),
    )


def maybe(place: Place | None) -> Source | None:
    """The same, where there is a place."""
    return source(place) if place is not None else None


def at(place: Place | None) -> str:
    """A place as part of an id."""
    return f"{brief(place.file)}:{place.line}:{place.column}" if place is not None else "?"


# ---- The line that uses a value of a container ----


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

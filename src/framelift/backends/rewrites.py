"""Rewrites: what framelift changes of a graph before a compiler gets it, and the plain graph where that fails.

Each rewrite is a row of `REWRITES`.  The code that makes one asks `may_rewrite` first and says `rewrote` afterwards.
Where a compiler then fails, the graph is compiled once more with no rewrite (`Rewritten.retry`).  A backward that is
compiled late belongs to a forward that has run: its graph is made plain by itself (plain_calls.py).  What was left
out is a warning, a count of `stats()` and a line of the report; with `config.strict` it is an error.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import config
from ..capture.compile_entry import capture_now
from ..capture.records.captures import counts, weakly
from ..exc import InternalError
from ..vocabulary.log import warn
from ..vocabulary.scopes import scope


class Rewrite(NamedTuple):
    """One way to change a graph: its name in `stats()`, and what a warning says of it."""

    name: str
    words: str


BUCKETS = Rewrite("gradient buckets", "it was compiled in parts, one for each bucket of gradients")
EQUAL_RUNS = Rewrite("equal runs", "its equal runs of operations were subgraphs")
LAYERS = Rewrite("folded layers", "its equal layers were one subgraph")
FLOATS = Rewrite("floats", "its operations with floats that change were taken apart")
LOADED = Rewrite("loaded graph", "what an earlier process compiled was loaded")
REWRITES = (BUCKETS, EQUAL_RUNS, LAYERS, FLOATS, LOADED)


class Rewritten:
    """The rewrites of one graph, in the order they were made, and for which capture.  Lives as long as what was
    compiled.
    """

    def __init__(self, around: Rewritten | None = None) -> None:
        self.made: list[Rewrite] = [] if around is None else list(around.made)
        self._inherited = len(self.made)
        info = capture_now()
        self._info: Any = weakly(info)

    @property
    def own(self) -> list[Rewrite]:
        """Those of this graph, without those of the graph that it is a part of."""
        return self.made[self._inherited :]

    def fell_back(self, error: BaseException, part: str, instead: str) -> None:
        """Say that a compiler failed, and what runs instead: the plain graph did not fail."""
        info = self._info()
        names = ", ".join(one.name for one in self.made)
        counts.fallbacks[names] += 1
        if info is not None:
            info.fallbacks.append(f"{part}: {names}")
        of = f" of {info.shown_name} ({info.file}:{info.line})" if info is not None else ""
        text = (
            f"the {part}{of} failed where {' and '.join(one.words for one in self.made)}: "
            f"{type(error).__name__}: {str(error).strip() or 'no message'}. {instead}"
        )
        if config.strict:
            raise InternalError(f"framelift: {text}") from error
        warn(f"{text}. This is a defect of framelift or of the backend.")

    def saved(self, words: str) -> None:
        """Note for the report what a rewrite saves."""
        if (info := self._info()) is not None:
            info.rewrites.append(words)

    def generated(self, call: Any) -> None:
        """Note for the report the file of a function that Inductor generated."""
        code = getattr(call, "__code__", None)
        if code is not None and (info := self._info()) is not None:
            info.generated.append(code.co_filename)


class _Now(threading.local):
    rewritten: Rewritten | None = None
    plain = False


_now = _Now()


def may_rewrite(_rewrite: Rewrite) -> bool:
    """Return whether the graph that is being compiled may be changed in this way."""
    return not _now.plain


def rewrote(rewrite: Rewrite) -> None:
    """Note that the graph that is being compiled was changed in this way."""
    if _now.rewritten is not None and rewrite not in _now.rewritten.made:
        _now.rewritten.made.append(rewrite)


def rewritten_now() -> Rewritten:
    """Return the record of the graph that is being compiled."""
    return _now.rewritten if _now.rewritten is not None else Rewritten()


@scope
def noting_rewrites() -> Iterator[Rewritten]:
    """Collect the rewrites of the graph that is compiled in this block."""
    before = _now.rewritten
    try:
        _now.rewritten = Rewritten(before)
        yield _now.rewritten
    finally:
        _now.rewritten = before


@contextlib.contextmanager
def without_rewrites() -> Iterator[None]:
    """Compile plain graphs in this block."""
    before, _now.plain = _now.plain, True
    try:
        yield
    finally:
        _now.plain = before

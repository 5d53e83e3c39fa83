"""Collections and warnings held back in the capturing thread, though Python's switches for them are the process's.

Other threads may look at these switches, and turn them, at any time.  So warnings are silenced by rows in the
process's filters that match in one thread alone; and collections are held back by a threshold of zero, which
changes nothing that `gc.enable` and `gc.disable` do, nor a threshold that somebody else sets meanwhile.
"""

from __future__ import annotations

import gc
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._core import insist
from .scopes import scope

# ---- warnings ----


class _QuietThread(threading.local):
    silent = 0  # blocks in which this thread's warnings are nothing
    silenced = 0  # warnings that were nothing
    raising = 0  # blocks in which they are exceptions


_thread = _QuietThread()


class _Silent(type):
    def __subclasscheck__(cls, _kind: type) -> bool:
        _thread.silenced += _thread.silent > 0
        return _thread.silent > 0


class _Raising(type):
    def __subclasscheck__(cls, _kind: type) -> bool:
        return _thread.raising > 0


class _Text:
    """The words of a row, as a compiled pattern has them."""

    match = _core.warning_text


class _Kinds(type):
    __subclasscheck__ = _core.warning_category  # type: ignore[assignment]  # C functions are not bound


#: for our own code; then for captured code: what the session says that nobody hears of
_ROWS: tuple[Any, ...] = (
    ("ignore", None, _Silent("Silent", (), {}), None, 0),
    ("error", None, _Raising("Raising", (), {}), None, 0),
    ("ignore", _Text(), _Kinds("Unheard", (), {}), None, 0),
)


class Watched(list):
    """The filters of the process, with our rows before them."""

    def __init__(self, outside: list[Any]) -> None:
        super().__init__((*_ROWS, *outside))
        self.outside, self.before = outside, list(outside)
        self.users: list[_Use] = []

    def leave(self) -> None:
        """Filters that code beside the rehearsal added (modules do so when they are imported) stay."""
        if warnings.filters is self:
            warnings.filters = self.outside
        now = [row for row in self if not any(row is own for own in _ROWS)]
        if len(now) != len(self.before) or any(new is not old for new, old in zip(now, self.before)):
            self.outside[:] = now


_lock = threading.RLock()


class _Use:
    """A block of one thread that our rows stand for."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.filters: Watched | None = None

    def end(self) -> None:
        with _lock:
            watched = self.filters
            if watched is not None:
                watched.users[:] = [use for use in watched.users if use is not self]
                if not watched.users:
                    watched.leave()


@scope
def watching_warnings() -> Iterator[None]:
    """Our rows stand before the filters of the process."""
    use = _Use()
    try:
        with _lock:
            watched = warnings.filters
            if type(watched) is list:
                watched = Watched(watched)
            if isinstance(watched, Watched):
                use.filters = watched
                watched.users.append(use)
                warnings.filters = watched
        yield
    finally:
        insist(use.end)


def silenced() -> int:
    """How many warnings of this thread were nothing so far."""
    return _thread.silenced


@scope
def quietly(raising: bool = False) -> Iterator[None]:
    """Warnings of this thread are nothing, or exceptions."""
    if not isinstance(warnings.filters, Watched):
        with watching_warnings(), quietly(raising):
            yield
        return
    name = "raising" if raising else "silent"
    before = getattr(_thread, name)
    try:
        setattr(_thread, name, before + 1)
        yield
    finally:
        setattr(_thread, name, before)


# ---- collections ----


class _Held:
    """Who holds collections back, and the thresholds before."""

    blocks: list[_Block] = []
    before: tuple[int, ...] = ()
    young: int = 0  # objects that the collector counted before


#: so much of what makes a collection begin does a capture count for
_SHARE = 4


class _Block:
    """A block of one thread in which no collection begins."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def begin(self) -> None:
        if not _Held.blocks:
            _Held.before, _Held.young = gc.get_threshold(), gc.get_count()[0]
        if self not in _Held.blocks:
            _Held.blocks.append(self)
        if gc.get_threshold()[0]:
            gc.set_threshold(0, *_Held.before[1:])

    def end(self) -> None:
        if self in _Held.blocks:
            _Held.blocks.remove(self)
        _let_collect()


@scope
def no_collections() -> Iterator[None]:
    """No collection begins by itself: in a rehearsal, finalisers it runs would be taken for captured code; and of what
    a capture makes, next to nothing is garbage before its end.
    """
    block = _Block()
    try:
        block.begin()
        yield
    finally:
        insist(block.end)


@scope
def collections_as_usual() -> Iterator[None]:
    """Within a block of `no_collections`, the innermost of this thread: a compiler works here, for minutes maybe.

    What it makes counts, and little of what was made before: next to nothing of that is garbage yet.
    """
    own = threading.get_ident()
    block = next((block for block in reversed(_Held.blocks) if block.thread == own), None)
    try:
        if block is not None:
            insist(block.end)
        yield
    finally:
        if block is not None:
            insist(block.begin)


def _let_collect() -> None:
    """Let the garbage collector run again, without a collection at once for the objects made meanwhile.

    A part of them counts, so that a collection comes after many captures.
    """
    if not _Held.blocks and gc.get_threshold()[0] == 0:
        _core.count_as_young(min(gc.get_count()[0], _Held.young + _Held.before[0] // _SHARE))
        gc.set_threshold(*_Held.before)


def _after_fork() -> None:
    """In a forked child, what other threads held is let go."""
    own = threading.get_ident()
    if not _lock._is_owned():  # type: ignore[attr-defined]  # private in typeshed
        _lock._at_fork_reinit()  # type: ignore[attr-defined]  # private in typeshed
    if _Held.blocks:
        _Held.blocks[:] = [block for block in _Held.blocks if block.thread == own]
        _let_collect()
    watched = warnings.filters
    if isinstance(watched, Watched) and watched.users:
        watched.users[:] = [use for use in watched.users if use.thread == own]
        if not watched.users:
            watched.leave()


os.register_at_fork(after_in_child=_after_fork)

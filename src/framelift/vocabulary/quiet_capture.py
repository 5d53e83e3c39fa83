"""Collections and warnings held back in the capturing thread, though Python's switches for them are the process's.

Other threads may look at these switches, and turn them, at any time.  So warnings are silenced by rows in the process's filters that
match in one thread alone; and collections are held back by a threshold of zero, which changes nothing that `gc.enable` and
`gc.disable` do, nor a threshold that somebody else sets meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from .. import _core

__all__ = ["Watched", "no_collections", "quietly", "thresholds", "watching_warnings"]


# ---- warnings ----

class _Thread(threading.local):
    silent = 0     # blocks in which this thread's warnings are nothing
    raising = 0    # blocks in which they are exceptions


_thread = _Thread()


class _Silent(type):
    def __subclasscheck__(cls, _kind: type) -> bool:
        return _thread.silent > 0


class _Raising(type):
    def __subclasscheck__(cls, _kind: type) -> bool:
        return _thread.raising > 0


class _Text:
    """The words of a row, as a compiled pattern has them."""

    match = _core.warning_text


class _Kinds(type):
    __subclasscheck__ = _core.warning_category  # type: ignore[assignment]  # C functions are not bound


class _AnyKind(type):
    __subclasscheck__ = _core.is_live  # type: ignore[assignment]  # the same


#: for our own code; then for captured code: what the session says that nobody hears of, and the rest
_ROWS: tuple[Any, ...] = (
    ("ignore", None, _Silent("Silent", (), {}), None, 0), ("error", None, _Raising("Raising", (), {}), None, 0),
    ("ignore", _Text(), _Kinds("Unheard", (), {}), None, 0), ("always", None, _AnyKind("Heard", (), {}), None, 0))


class Watched(list):
    """The filters of the process, with our rows before them."""

    def __init__(self, outside: list[Any]) -> None:
        super().__init__((*_ROWS, *outside))
        self.outside, self.before = outside, list(outside)
        self.users: list[int] = []   # threads

    def leave(self) -> None:
        """Filters that code beside the rehearsal added (modules do so when they are imported) stay."""
        if warnings.filters is self:
            warnings.filters = self.outside
        now = [row for row in self if not any(row is own for own in _ROWS)]
        if len(now) != len(self.before) or any(new is not old for new, old in zip(now, self.before)):
            self.outside[:] = now


_lock = threading.RLock()


@contextlib.contextmanager
def watching_warnings() -> Iterator[None]:
    """Our rows stand before the filters of the process."""
    with _lock:
        watched = warnings.filters
        if type(watched) is list:
            warnings.filters = watched = Watched(watched)
        if isinstance(watched, Watched):
            watched.users.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            if isinstance(watched, Watched):
                watched.users.remove(threading.get_ident())
                if not watched.users:
                    watched.leave()


@contextlib.contextmanager
def quietly(raising: bool = False) -> Iterator[None]:
    """Warnings of this thread are nothing, or exceptions."""
    if not isinstance(warnings.filters, Watched):
        with watching_warnings(), quietly(raising):
            yield
        return
    name = "raising" if raising else "silent"
    setattr(_thread, name, getattr(_thread, name) + 1)
    try:
        yield
    finally:
        setattr(_thread, name, getattr(_thread, name) - 1)


# ---- collections ----

class _Held:
    """Who holds collections back, and the thresholds before."""

    threads: list[int] = []
    before: tuple[int, ...] = ()


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """No collection begins by itself: finalisers it runs would be taken for captured code."""
    if not _Held.threads:
        _Held.before = gc.get_threshold()
        gc.set_threshold(0, *_Held.before[1:])
    _Held.threads.append(threading.get_ident())
    try:
        yield
    finally:
        _Held.threads.remove(threading.get_ident())
        _let_collect()


def _let_collect() -> None:
    if not _Held.threads and gc.get_threshold()[0] == 0:
        gc.set_threshold(*_Held.before)


def thresholds() -> tuple[int, ...]:
    """The collector's thresholds outside of rehearsals."""
    now = gc.get_threshold()
    return _Held.before if _Held.threads and now[0] == 0 else now


def _after_fork() -> None:
    """In a forked child, what other threads held is let go."""
    own = threading.get_ident()
    if not _lock._is_owned():   # type: ignore[attr-defined]
        _lock._at_fork_reinit()   # type: ignore[attr-defined]
    if _Held.threads:
        _Held.threads[:] = [thread for thread in _Held.threads if thread == own]
        _let_collect()
    watched = warnings.filters
    if isinstance(watched, Watched) and watched.users:
        watched.users[:] = [thread for thread in watched.users if thread == own]
        if not watched.users:
            watched.leave()


os.register_at_fork(after_in_child=_after_fork)

"""For tests of captures kept on disk: one call as in a new process, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift

__all__ = ["check", "counted"]


def counted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, int, int]:
    """One call as in a new process: the result, how many rehearsals there were, how many captures came from disk."""
    framelift.reset()
    before = framelift.stats()
    result = framelift.compile(function, backend="eager")(*args, **kwargs)
    after = framelift.stats()
    return result, after["captures"] - before["captures"], after["loaded"] - before["loaded"]


def check(function: Callable[..., Any], *args: Any, loaded: bool, **kwargs: Any) -> None:
    """The next process gives what eager mode gives, with or without a rehearsal."""
    result, captures, found = counted(function, *args, **kwargs)
    assert repr(result) == repr(function(*args, **kwargs))
    assert (captures, found) == ((0, 1) if loaded else (1, 0)), framelift.stats()["not_kept"]

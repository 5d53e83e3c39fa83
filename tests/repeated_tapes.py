"""Whatever a rehearsal is repeated for, it records what the one before it recorded, up to where one of the two ends.

Something that differs is an effect of the first rehearsal that was not undone, or an answer that depends on more than
the program's state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

__all__ = ["differences", "taken", "watch"]

_found: list[str] = []


def watch() -> None:
    """Compare the rehearsals of each capture from now on."""
    from framelift.capture import driver

    inner = driver.closing
    if getattr(inner, "compares", False):
        return

    @contextlib.contextmanager
    def closing(sessions: list[Any]) -> Iterator[None]:
        with inner(sessions):
            try:
                yield
            finally:
                _found.extend(differences(sessions))

    closing.compares = True  # type: ignore[attr-defined]
    driver.closing = closing


def taken() -> list[str]:
    """Return the differences since the last time."""
    found = _found[:]
    _found.clear()
    return found


def differences(sessions: Sequence[Any]) -> list[str]:
    """Return where a session's tape does not begin as that of the one before, of those that were made alike."""
    found = []
    for before, after in zip(sessions, sessions[1:]):
        if _manner(before) == _manner(after):
            tapes = zip(before.recorder.tape, after.recorder.tape)
            found += [
                f"step {number} is {two} in the repeated rehearsal, and was {one}"
                for number, (one, two) in enumerate(tapes)
                if one.target is not two.target and not _is_made_anew(one.target.func, two.target.func)
            ][:1]
    return found


def _is_made_anew(before: Any, after: Any) -> bool:
    """Return whether a function that captured code makes is another object of the same code, as in each rehearsal."""
    code = getattr(before, "__code__", None)
    return code is not None and code is getattr(after, "__code__", None)


def _manner(session: Any) -> Any:
    """The choices that a rehearsal was made with, but for what is read before a break."""
    return replace(session.policy, unread=frozenset())

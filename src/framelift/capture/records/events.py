"""Events of captures for listeners: logs, repro files.

    failed(capture, name, error)  a phase raised
    done(capture)                 a capture is finished and in its record

A listener that fails is reported once and dropped: it must never break the program.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...vocabulary.outside_exceptions import raise_outside

LISTENERS: dict[str, list[Callable[..., Any]]] = {"failed": [], "done": []}


def listen(event: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: call the function at every such event."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LISTENERS[event].append(function)
        return function

    return register


def notify(event: str, *args: Any) -> None:
    """An event happened."""
    for listener in tuple(LISTENERS[event]):
        try:
            listener(*args)
        except Exception as error:
            raise_outside(error)
            LISTENERS[event].remove(listener)
            warnings.warn(
                f"framelift: a listener to {event!r} failed and was dropped: {type(error).__name__}: {error}",
                stacklevel=2,
            )

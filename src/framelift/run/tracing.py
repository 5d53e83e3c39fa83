"""Debuggers, profilers and coverage tools are told nothing of a rehearsal: their callbacks are not the program's code.

Nor is anybody told of interrupts that generators meet when they are closed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..reasons import Interrupt

__all__ = ["untold", "untraced"]

_TOOLS = range(6)   # the tool ids of sys.monitoring (CPython 3.12)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Tracing, profiling and monitoring are off in this thread, and as they were afterwards."""
    trace, profile = sys.gettrace(), sys.getprofile()
    monitoring = getattr(sys, "monitoring", None)
    events = {}
    if monitoring is not None:
        events = {tool: monitoring.get_events(tool) for tool in _TOOLS if monitoring.get_tool(tool) is not None}
        events = {tool: mask for tool, mask in events.items() if mask}
    if trace is None and profile is None and not events:
        yield
        return
    try:
        sys.settrace(None)
        sys.setprofile(None)
        for tool in events:
            monitoring.set_events(tool, 0)
        yield
    finally:
        for tool, mask in events.items():
            if monitoring.get_tool(tool) is not None:
                monitoring.set_events(tool, mask)
        sys.setprofile(profile)
        sys.settrace(trace)


@contextlib.contextmanager
def untold() -> Iterator[None]:
    """An interrupt leaves generators suspended; they are closed as frames unwind, and meet it again in their `finally` blocks.

    Python would write that to stderr, and it is nobody's news.
    """
    before = sys.unraisablehook

    def quiet(unraisable: Any) -> None:
        if unraisable.exc_type is not Interrupt:
            before(unraisable)
    sys.unraisablehook = quiet
    try:
        yield
    finally:
        sys.unraisablehook = before

"""Debuggers, profilers and coverage tools are told nothing of a rehearsal: their callbacks are not the program's code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["untraced"]

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

"""Debuggers, profilers and coverage tools do not see a rehearsal: their callbacks are not the program's code.

Interrupts that generators meet when they are closed are not shown either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._core import insist
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope

_TOOLS = range(6)  # the tool ids of sys.monitoring (CPython 3.12)


@scope
def untraced() -> Iterator[None]:
    """Tracing, profiling and monitoring are off in this thread for a while; other threads notice nothing."""
    monitoring = getattr(sys, "monitoring", None)
    monitored = monitoring is not None and any(monitoring.get_tool(tool) is not None for tool in _TOOLS)
    if sys.gettrace() is None and sys.getprofile() is None and not monitored:
        yield
        return
    silent = False

    def end() -> None:
        nonlocal silent
        if silent:
            silent = False
            _core.silence(False)

    try:
        # This thread does as if it were in a callback.  To take tools out and put them back would not do: Python gives
        # no way to put one back that is written in C, cProfile among them, and events of sys.monitoring are the
        # process's.
        silent = True
        _core.silence(True)
        yield
    finally:
        insist(end)


@scope
def quiet_unraisable() -> Iterator[None]:
    """An interrupt leaves generators suspended; they are closed as frames unwind, and meet it again in their `finally`
    blocks.

    Python would write that to stderr, and it is nobody's news.  What other threads cannot raise goes where it would go
    without us.
    """
    before = sys.unraisablehook

    def quiet(unraisable: Any) -> None:
        if unraisable.exc_type is not Interrupt:
            before(unraisable)

    def end() -> None:
        if sys.unraisablehook is quiet:  # else somebody set his own meanwhile
            sys.unraisablehook = before

    try:
        sys.unraisablehook = quiet
        yield
    finally:
        insist(end)

"""Who else is asked before an entry runs: a hook on the outcome of guards, and ranks that agree on it.

With a hook set, each call of something that was captured before first looks for the entry that serves it, then tells
the hook whether there is one.  Where the hook says no, the call is a miss, and is captured again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from ..capture import ranks
from ..guards.misses import Miss
from ..substitutes.marks import forbidden, on_code

_hook: Callable[[bool], bool] | None = None

#: why an entry is not used though it is for the call
_ELSEWHERE = Miss("", "hook", "", "", "guards hold here, but not on every rank, or a guard hook says no", None)


def set_guard_complete_hook(hook: Callable[[bool], bool] | None) -> Callable[[bool], bool] | None:
    """Let `hook(served)` decide whether what was captured may serve a call; returns the hook before.

    >>> import torch, framelift
    >>> from framelift.surface.guard_collectives import set_guard_complete_hook
    >>> f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> heard = []
    >>> before = set_guard_complete_hook(lambda served: heard.append(served) or served)
    >>> _ = f(torch.ones(2)), f(torch.ones(2)), f(torch.ones(3))
    >>> _ = set_guard_complete_hook(before)
    >>> heard                                          # nothing was captured yet when it was called first
    [True, False]
    """
    global _hook
    before, _hook = _hook, hook
    _connect()
    return before


def _connect() -> None:
    _core.connect(entry_chooser=_chosen if _hook is not None or ranks.agreeing[0] else None)


def _chosen(
    entries: list[_core.Entry], locals_: tuple[Any, ...], compiled: _core.Compiled | None
) -> _core.Entry | None:
    """The entry that runs: the first that serves the call, if the hook and the other ranks agree.

    Ranks agree on calls of what was compiled (`compiled`); how many frames run below one is a rank's own matter.
    """
    found = next((entry for entry in list(entries) if _serves(entry, locals_)), None)
    served, hook = found is not None, _hook
    if entries and hook is not None:
        served = hook(served)
    if ranks.agreeing[0] and compiled is not None:
        served = ranks.agreed(compiled.function, served)
    if found is not None and not served:
        found.info.refusal = _ELSEWHERE
    return found if served else None


def _serves(entry: _core.Entry, locals_: tuple[Any, ...]) -> bool:
    inputs = entry.inputs_for(locals_)
    if inputs is None:
        return False
    relations = entry.info.relations
    return relations is None or relations.hold(inputs)


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Let all ranks agree before each compiled call: where one of them has to compile, all do.  Returns what was set.

    Ranks then compile at the same time, so that none waits in a collective of its program for one that compiles.  It
    costs a collective for each compiled call, and all ranks must make the same compiled calls.

    >>> import framelift
    >>> framelift.set_enable_guard_collectives(True), framelift.set_enable_guard_collectives(False)
    (False, True)
    """
    before, ranks.agreeing[0] = ranks.agreeing[0], bool(enabled)
    _connect()
    return before


on_code(forbidden)(set_enable_guard_collectives)
setattr(set_enable_guard_collectives, "_dynamo_forbidden", True)

"""Who else is asked before an entry runs: a hook on the outcome of guards, and ranks that agree on it.

With a hook set, each call of something that was captured before first looks for the entry that serves it, then tells
the hook whether there is one.  Where the hook says no, the call is a miss, and is captured again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .. import _core
from ..guards.misses import Miss
from ..overriding.modes import without_modes
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
    _core.connect(entry_chooser=None if hook is None else _chosen)
    return before


def _chosen(entries: list[_core.Entry], locals_: tuple[Any, ...]) -> _core.Entry | None:
    """The entry that runs: the first that serves the call, if the hook agrees."""
    found = next((entry for entry in list(entries) if _serves(entry, locals_)), None)
    hook = _hook
    if hook is None or hook(found is not None):
        return found
    if found is not None:
        found.info.refusal = _ELSEWHERE
    return None


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
    return set_guard_complete_hook(_agreed if enabled else None) is not None


on_code(forbidden)(set_enable_guard_collectives)
setattr(set_enable_guard_collectives, "_dynamo_forbidden", True)

_groups: list[Any] = [None, None]  # the program's group of all ranks, and ours beside it


def _agreed(served: bool) -> bool:
    """Return whether the call is served on every rank."""
    if not dist.is_available() or not dist.is_initialized():
        return served
    return bool(without_modes(_ask_all)(served))


@torch.no_grad()
def _ask_all(served: bool) -> bool:
    """A group of its own: collectives that the program has begun are not to meet this one."""
    if _groups[0] is not dist.group.WORLD:
        own = dist.new_group(backend="gloo" if dist.is_gloo_available() else None)
        _groups[:] = dist.group.WORLD, own
    answers: list[Any] = [None] * dist.get_world_size(_groups[1])
    dist.all_gather_object(answers, served, group=_groups[1])
    return all(answers)

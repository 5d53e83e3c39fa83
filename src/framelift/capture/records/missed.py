"""Why no entry served a call: the entry that came closest, and what it looked at before it ran."""

from __future__ import annotations

import functools
import types
from collections.abc import Container
from typing import Any

from ... import _core
from ...exits import Lines
from ...graph.fx.shared_memory import sharing_of
from ...graph.metadata.wrappers import leaf_tensors
from ...guards.misses import Miss, miss_of
from .. import policy
from .call_forms import of_call
from .captures import Capture
from .user_names import names_below

#: why an entry is not used though its guards hold, by what it looked at before it ran
_SHARED = Miss(
    "", "memory", "", "", "inputs share memory in another way than before, and the function writes to its inputs", None
)
_HOOKED = Miss("", "hooks", "", "", "a tensor whose gradient the function computes now has a hook", None)
#: why there is no entry left
GONE = Miss("", "gone", "", "", "an object that was guarded no longer exists", None)


def watching_memory(given: tuple[Any, ...], written: tuple[int, ...], info: Capture) -> Lines:
    """A graph that writes to inputs, at the places `written`, was built on which of them, or of their inner tensors,
    share memory; and was compiled for where they lie in it, where they overlap.
    """
    sharing = sharing_of(given, written)
    leaves = "stage_leaves(inputs)" if sharing.has_wrappers else "inputs"
    return Lines(
        before=(
            f"if stage_memory({leaves}, stage_writes, {not info.runs_as_recorded}) != stage_shared:",
            "    return stage_shares_otherwise()",
        ),
        names={
            "stage_leaves": leaf_tensors,
            "stage_memory": _core.memory_pattern,
            "stage_writes": sharing.written,
            "stage_shared": sharing.pattern(exact=not info.runs_as_recorded),
            "stage_shares_otherwise": functools.partial(_refuse, info, _SHARED),
        },
    )


def watching_hooks(places: list[int], info: Capture) -> Lines:
    """A graph that adds to the gradients of the inputs at these places was built for tensors without hooks."""
    return Lines(
        before=(f"if stage_hooked(({''.join(f'inputs[{i}], ' for i in places)})): return stage_is_hooked()",),
        names={"stage_hooked": _core.hooked, "stage_is_hooked": functools.partial(_refuse, info, _HOOKED)},
    )


def _refuse(info: Capture, why: Miss) -> Any:
    """The entry is not for this call."""
    info.refusal = why
    return _core.MISS


def cause(
    entries: list[Any],
    function: types.FunctionType,
    locals_: tuple[Any, ...],
    limit: int,
    taken: Container[Capture] = (),
    known: dict[Any, Miss | None] | None = None,
) -> tuple[Miss | None, bool]:
    """Why a call is not served, by the entry that comes closest to serving it; and whether that cause has no room for
    one more.  `taken`: captures that were made for others, and serve here.

    Of entries that are equally close the newest whose cause has room counts.  `known`: what was found where the same
    guards failed and there was no room; it is added to, for words take longer than an eager call.
    """
    failures = [entry.program.failures(locals_) for entry in entries]
    fewest = min((max(len(found), 1) for found in failures), default=0)  # where all guards hold, a relation does not
    close = [(entry, found) for entry, found in zip(entries, failures) if len(found) <= fewest]
    failing = policy.owner_of(locals_), limit, len(entries), *((id(entry), *found[:1]) for entry, found in close)
    if known and failing in known and not policy.forbids_recompiles():
        return known[failing], True
    first, tells = None, all(failures)
    for entry, found in close:
        miss = _why_not(entry, found, function, locals_)
        first = first or miss
        tells = tells and miss is not None and miss.kind != "CALL"
        if not policy.is_full(entries, locals_, limit, miss, taken):
            return miss, False
    if known is not None and entries and tells:
        known.update({failing: first} if len(known) < 64 else {})
    return first, bool(entries)


def missed(
    program: Any, failures: list[tuple[int, int]], function: types.FunctionType, locals_: tuple[Any, ...]
) -> Miss:
    """The first of the guards that fail for a call, in the words of that call."""
    return of_call(
        miss_of(program, failures[0], locals_),
        program,
        function,
        names_below(function, locals_[0] if locals_ else None),
        locals_,
    )


def _why_not(
    entry: Any, failures: list[tuple[int, int]], function: types.FunctionType, locals_: tuple[Any, ...]
) -> Miss | None:
    if failures:
        miss = missed(entry.info.explain, failures, function, locals_)
        return entry.info.resumed.missed(miss) if entry.info.resumed is not None else miss
    refusal, entry.info.refusal = entry.info.refusal, None
    return refusal or (entry.info.relations.why() if entry.info.relations is not None else None)

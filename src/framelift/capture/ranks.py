"""Ranks of one program: whether all can serve a compiled call, and what failed on one of them, told to the others.

Where ranks agree (`agreeing`), each compiled call begins with a collective: where one rank has to capture, all do, and
they say to each other how that ended.  Without it, a failed capture is noted in the group's store; a rank whose graph
then fails in a collective reads there what became of the others.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ..exc import RankError
from ..overriding.modes import without_modes

_FAILED = "framelift/failed/"  # in the default store, by rank
_WAITS = "framelift/waits/"
_groups: list[Any] = [None, None]  # the program's group of all ranks, and ours beside it
_state = threading.local()

#: whether ranks agree before each compiled call
agreeing: list[bool] = [False]


def _ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def several() -> bool:
    """Return whether the program has more than one rank."""
    return _ranks() > 1


def _called(function: types.FunctionType) -> str:
    code = function.__code__
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


def agreed(function: types.FunctionType, served: bool) -> bool:
    """Return whether a call of a compiled function is served on every rank."""
    if _ranks() == 1:
        return served
    answers = _exchanged(function, served)
    _state.asked = not all(answers)
    return all(answers)


def captured(function: types.FunctionType, error: Exception | None = None) -> None:
    """A capture is over: the others hear of its `error`.  Raises `RankError` where another rank's failed."""
    if _ranks() == 1:
        return
    text = f"{type(error).__name__}: {error}"[:2000] if error is not None else ""
    if agreeing[0] and getattr(_state, "asked", False):
        _state.asked = False
        failed = [f"rank {rank} could not: {one}" for rank, one in enumerate(_exchanged(function, text)) if one]
        if failed and error is None:
            raise RankError(f"{_called(function)} was to be compiled on all ranks, and " + "\n".join(failed))
    elif error is not None:
        _noted(_FAILED, f"{_called(function)}: {text}")


def failing_with_ranks(graph: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`graph`, which has collectives: where it fails, the error says what is known of the other ranks."""

    def run(*inputs: Any) -> Any:
        try:
            return graph(*inputs)
        except RuntimeError as error:
            if _ranks() > 1:
                error.add_note(f"rank {dist.get_rank()} of {_ranks()} was in a graph of {name}. {_others()}")
            raise

    return run


def _others() -> str:
    found = [f"rank {rank} could not compile {text}" for rank, text in _read(_FAILED).items()]
    advice = "" if agreeing[0] else " framelift.set_enable_guard_collectives(True) lets ranks compile at the same time."
    return "\n".join(found) or f"No other rank says that it failed to compile.{advice}"


def _noted(key: str, text: str) -> None:
    """Leave a text for the other ranks."""
    from ..torch_ports.operators import distributed_c10d

    try:
        distributed_c10d._get_default_store().set(f"{key}{dist.get_rank()}", text)
    except RuntimeError:  # who had the store is gone
        return


def _read(key: str) -> dict[int, str]:
    """Return what the other ranks left."""
    from ..torch_ports.operators import distributed_c10d

    try:
        store = distributed_c10d._get_default_store()
        others = [rank for rank in range(_ranks()) if rank != dist.get_rank() and store.check([f"{key}{rank}"])]
        return {rank: store.get(f"{key}{rank}").decode() for rank in others}
    except RuntimeError:
        return {}


def _exchanged(function: types.FunctionType, value: Any) -> list[Any]:
    """Return each rank's value."""
    told: list[tuple[str, Any]] = without_modes(_exchange)(_called(function), value)
    calls = {rank: called for rank, (called, _) in enumerate(told)}
    if len(set(calls.values())) > 1:
        raise RankError(
            "ranks agree before each compiled call, and they made different ones: "
            + ", ".join(f"rank {rank} {called}" for rank, called in calls.items())
        )
    return [value for _, value in told]


@torch.no_grad()
def _exchange(called: str, value: Any) -> list[tuple[str, Any]]:
    """A group of its own: collectives that the program has begun are not to meet this one."""
    world = dist.group.WORLD
    if _groups[0] is not world:
        own = dist.new_group(backend="gloo" if dist.is_gloo_available() else None, timeout=_timeout(world))
        _groups[:] = world, own
    answers: list[Any] = [None] * _ranks()
    kind = "before a call of" if type(value) is bool else "after the capture of"
    try:
        dist.all_gather_object(answers, (f"{kind} {called}", value), group=_groups[1])
    except RuntimeError as error:
        _noted(_WAITS, called)
        here = {dist.get_rank(), *_read(_WAITS)}
        missing = [str(rank) for rank in range(_ranks()) if rank not in here]
        raise RankError(
            f"rank {dist.get_rank()} waited {kind} {called} for the other ranks, and not all came "
            f"(no word of rank {', '.join(missing)}). {_others()}"
        ) from error
    return answers


def _timeout(group: Any) -> Any:
    """Return how long the program's own group waits."""
    try:
        return group._get_backend(group._device_types[-1]).options._timeout
    except (AttributeError, RuntimeError):
        return None

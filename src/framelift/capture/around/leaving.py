"""Entries whose effects may be seen: torch's state that the program changes, and hooks on saved tensors."""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ...exits import Lines
from ...torch_ports.autograd import top_saved_hooks
from ...vocabulary.torch_code import is_torch_function


def leaving(entry: Any, calls: Any, in_region: bool) -> Any:
    """The program leaves torch's global state changed: so does the entry.

    Torch keeps casts of weights until the outermost autocast is left: what is open at the end is open while the graph
    runs.
    """
    opening = [call for call in calls if in_region and call[0] is torch.autocast_increment_nesting]
    calls = [call for call in calls if call not in opening]

    def run(inputs: tuple[Any, ...], externals: tuple[Any, ...]) -> Any:
        result = _core.MISS
        for function, args in opening:
            function(*args)
        try:
            result = entry(inputs, externals)
        finally:
            if result is _core.MISS or result is _core.PLAIN:  # the entry is not for this call, or raised
                for _ in opening:
                    _close()
            else:
                for function, args in calls:
                    function(*args)
        return result

    return run


def _close() -> None:
    if torch.autocast_decrement_nesting() == 0:  # as autocast does
        torch.clear_autocast_cache()


def unseen_by_hooks() -> Lines:
    """Around an entry that changes objects of the program when the graph is over: hooks on saved tensors, which run
    while it does, would see them as they were.
    """
    return Lines(
        before=("if stage_has_hooks() and stage_sees(): return PLAIN",),
        names={"PLAIN": _core.PLAIN, "stage_has_hooks": _core.has_saved_hooks, "stage_sees": _are_of_program},
    )


def _are_of_program() -> bool:
    hooks = top_saved_hooks(True)
    return hooks is not None and not all(map(is_torch_function, hooks))

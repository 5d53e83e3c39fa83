"""Functions with which a graph checks its assumptions on the way, before something that cannot be undone."""

from __future__ import annotations

import torch

from ... import _core


class AssumptionFailed(Exception):
    """The data is not what the rehearsal took it to be.  Never leaves framelift: the frame runs eagerly."""


def check_assumptions(*wrong: torch.Tensor) -> None:
    """Each is true where an assumption is wrong.  Nothing has happened yet, so plain Python may have the call."""
    if any(map(bool, wrong)):
        _core.undone()
        raise AssumptionFailed

"""A fact of torch (seen in 2.11 to 2.13): going through a history that was freed raises a RuntimeError of no class of
its own, known by its text alone.
"""

from __future__ import annotations

_TEXT = "backward through the graph a second time"


def says_second_time(error: RuntimeError) -> bool:
    """Return whether torch raised this because a history was gone through already."""
    return _TEXT in str(error)

"""The record of one cell, which all matrices share.  What a cell does belongs to its matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Cell"]


@dataclass(frozen=True)
class Cell:
    """One small experiment.

    `run()` gives None, or a text that says how the compiled program differs from the eager one.

    `name` is unique within its matrix, and says what the cell does as words with slashes between: "list/len/append".
    A cell leaves the process as it found it, since others run in it afterwards.
    """

    name: str
    run: Callable[[], str | None]

"""The switch of a thread that makes a graph break an error. Captured code changes a copy, by an effect."""

from __future__ import annotations

import threading

from ..boundary.world import World
from ..vocabulary.feature_state import FeatureState


class _Thread(threading.local):
    def __init__(self) -> None:
        self.values: list[bool] = []


_thread = _Thread()


def push(value: bool) -> None:
    """A block begins."""
    _thread.values.append(value)


def pop() -> None:
    """A block ends."""
    if _thread.values:
        _thread.values.pop()


class Blocks:
    """The blocks around a moment of captured code: a copy of the thread's, and how many of those are still open."""

    def __init__(self) -> None:
        self.values = list(_thread.values)
        self.before = self.kept = len(self.values)

    @property
    def is_error(self) -> bool:
        """True if a break is an error here."""
        return bool(self.values) and self.values[-1]

    def push(self, value: bool) -> None:
        self.values.append(value)

    def pop(self) -> None:
        if self.values:
            self.values.pop()
        self.kept = min(self.kept, len(self.values))

    def note_changes(self, world: World) -> None:
        """Captured code ends inside of other blocks than it began with: so does the entry."""
        for i in range(self.before - self.kept):
            world.write("call", pop, -1 - i, ())
        for i, value in enumerate(self.values[self.kept :]):
            world.write("call", push, i, (value,))


BLOCKS = FeatureState(Blocks)

"""What a program has switched for this thread: whether a break is an error."""

from __future__ import annotations

import threading

__all__ = ["error_flag"]


class _Flag(threading.local):
    """A stack of values; None below the first."""

    def __init__(self) -> None:
        self.values: list[bool] = []

    @property
    def value(self) -> bool | None:
        return self.values[-1] if self.values else None

    def push(self, value: bool) -> None:
        self.values.append(value)

    def pop(self) -> None:
        self.values.pop()


#: whether a break is an error; None: as `fullgraph` says
error_flag = _Flag()

"""What a program has switched for this thread, beyond what a session knows: nothing now.  A session begins with its thread's blocks."""

from __future__ import annotations

__all__ = ["error_flag"]


class _Flag:
    value: bool | None = None


#: whether a break is an error; None: as `fullgraph` says
error_flag = _Flag()

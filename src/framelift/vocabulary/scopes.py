"""Context managers that end whatever strikes them: `scope` in place of `contextlib.contextmanager`, `insist` in
`finally` blocks.

An external exception (outside_exceptions.py) may strike between any two instructions of Python code, also of
code that puts something back.  The frames of contextlib's managers are such code; `scope` has none.
`insist(function)` calls a function that puts something back until it has done so, and raises what struck it then:
all that a `finally` block of process-wide state should do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from .. import _core

P = ParamSpec("P")
T = TypeVar("T")


def scope(make: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """A generator function as a context manager."""

    @functools.wraps(make)
    def begin(*args: Any, **kwargs: Any) -> Any:
        return _core.Scope(make(*args, **kwargs))

    return begin

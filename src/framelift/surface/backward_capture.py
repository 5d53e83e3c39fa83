"""`config.compiled_autograd`: backward passes that run inside of a compiled call are captured by torch's compiled
autograd, and compiled as the call is.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

from .. import _core

__all__ = ["WithBackward"]


class WithBackward:
    """A compiled callable; `again` compiles the graph of a backward as it was compiled itself.

    >>> import torch, framelift
    >>> with framelift.config.patch(compiled_autograd=True):
    ...     f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> f(torch.ones(1)), len(f.entries)
    (tensor([2.]), 1)
    """

    def __init__(self, compiled: Any, again: Callable[..., Any]) -> None:
        self.compiled, self._again = compiled, again
        self.__dict__.update(compiled.__dict__)
        self.__wrapped__ = compiled.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _core.get_mode() != 0:  # inside of another compiled call, whose backward it is
            return self.compiled(*args, **kwargs)
        engine = importlib.import_module("torch._dynamo.compiled_autograd")
        with engine._enable(self._again):
            return self.compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["compiled"], name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

"""`config.compiled_autograd`: backward passes that run inside of a compiled call are captured by torch's compiled
autograd, and compiled as the call is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .around_compiled import AroundCompiled


class WithBackward(AroundCompiled):
    """A compiled callable; `again` compiles the graph of a backward as it was compiled itself.

    >>> import torch, framelift
    >>> with framelift.config.patch(compiled_autograd=True):
    ...     f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> f(torch.ones(1)), len(f.entries)
    (tensor([2.]), 1)
    """

    def __init__(self, compiled: Any, again: Callable[..., Any]) -> None:
        super().__init__(compiled)
        self._again = again

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _core.get_mode() != 0:  # inside of another compiled call, whose backward it is
            return self._compiled(*args, **kwargs)
        from ..torch_ports.compilers import enable_compiled_autograd  # it imports TorchDynamo

        with enable_compiled_autograd(self._again):
            return self._compiled(*args, **kwargs)

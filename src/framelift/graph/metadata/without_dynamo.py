"""A fact of torch: its kernels in Python are wrapped so that TorchDynamo does not trace them, and the first call of
such a wrapper imports TorchDynamo.  That takes longer than a capture, and a capture does not need it.

As long as nobody has imported TorchDynamo there is nothing that could trace, so the wrapped function is called as it
is.  From then on the wrappers do what torch made them for.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from ..._core import is_a
from ...torch_ports.compiling import disable_dynamo
from ...torch_ports.fakes import FakeTensorMode
from ...torch_ports.operators import global_decomposition_table

_WRAPPER = disable_dynamo(lambda: None).__code__
#: where a wrapper looks for what to call in place of the function, before it imports TorchDynamo
_PLACE = "__dynamo_disable"
_CAN = _PLACE in _WRAPPER.co_consts and "fn" in _WRAPPER.co_freevars


class _UntilDynamo:
    """The function that a wrapper calls until TorchDynamo is imported."""

    __slots__ = ("function", "wrapper")

    def __init__(self, function: Any, wrapper: Callable[..., Any]) -> None:
        self.function, self.wrapper = function, wrapper

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return self.function(*args, **kwargs)
        if vars(self.function).get(_PLACE) is self:
            vars(self.function).pop(_PLACE, None)
        return self.wrapper(*args, **kwargs)


@functools.cache
def call_without_dynamo() -> None:
    """Let torch's kernels in Python and its fake modes run without importing TorchDynamo."""
    if not _CAN or "torch._dynamo" in sys.modules:
        return
    kernels = [kernel for table in global_decomposition_table.values() for kernel in table.values()]
    modes = [vars(mode).get("__torch_dispatch__") for mode in (FakeTensorMode, *FakeTensorMode.__subclasses__())]
    for wrapper in _wrappers_in(kernels + modes):
        function = wrapper.__closure__[_WRAPPER.co_freevars.index("fn")].cell_contents
        if is_a(function, types.FunctionType):
            vars(function).setdefault(_PLACE, _UntilDynamo(function, wrapper))


def _wrappers_in(functions: Iterable[Any]) -> list[Any]:
    """The wrappers among these functions and the functions they call by their closures."""
    waiting, seen, found = list(functions), set(), []
    while waiting:
        function = waiting.pop()
        if not is_a(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        if function.__code__ is _WRAPPER:
            found.append(function)
        for cell in function.__closure__ or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:  # not filled yet
                continue
    return found

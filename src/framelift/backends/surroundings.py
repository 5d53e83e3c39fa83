"""State that a compiler may change beside its work: torch's state, the interpreter's settings, classes of torch.fx."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from .._core import insist
from ..graph.state.torch_state import SavedState
from ..torch_ports import compilers
from ..torch_ports.fakes import TLS, TracingContext
from ..torch_ports.graphs import fx_tracing_flag, set_fx_tracing_flag
from ..torch_ports.loaded import distributed_tensors
from ..vocabulary.scopes import scope

#: (read, write): numbers of the interpreter that a compiler may need otherwise, and that the captured program may have
#: read; and the numbers it will draw
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    (sys.getswitchinterval, sys.setswitchinterval),
    (random.getstate, random.setstate),
)
#: what torch.fx replaces while it traces, and leaves replaced where an exception strikes the end of that
_PATCHED: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    *(
        (partial(vars(torch.nn.Module).__getitem__, name), partial(setattr, torch.nn.Module, name))
        for name in ("__call__", "__getattr__")
    ),
    (fx_tracing_flag, set_fx_tracing_flag),
)


@scope
def settings_kept() -> Iterator[None]:
    """The interpreter's settings after a block are those before it."""
    settings = [(write, read()) for read, write in _SETTINGS]
    try:
        yield
    finally:
        insist(lambda: [write(value) for write, value in settings])


def _forget_layouts() -> None:
    """Torch remembers layouts of distributed tensors with the meshes of whoever asked: a compiler's are fakes."""
    if distributed_tensors.get() is not None:
        compilers.clear_sharding_prop_cache()


class ProcessState:
    """All that as it is now.  `restore` may be struck, and called again."""

    def __init__(self) -> None:
        self.failed = True  # until the compiler is done
        self._saved = SavedState()
        self._settings = [(write, read()) for read, write in _SETTINGS]
        self._patched = [(read, write, read()) for read, write in _PATCHED]
        self._context = TracingContext.try_get()
        _forget_layouts()

    def restore(self) -> None:
        """Put it back."""
        self._saved.restore()
        _forget_layouts()
        for write, value in self._settings:
            write(value)
        TLS.tracing_context = self._context
        for read, write, value in self._patched if self.failed else ():
            if read() is not value:
                write(value)

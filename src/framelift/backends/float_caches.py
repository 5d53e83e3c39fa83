"""AOTAutograd's disk cache for graphs that take floats.

An entry of that cache does not say what its compiler assumed about a float: that it is less than a half, or a certain
number.  So a graph with floats among its inputs is kept only where nothing is assumed about any of them, neither by the
compiler nor by the capture: another capture with the same graph may assume nothing.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from ..capture.around.specialized_floats import cache_was_on
from ..torch_ports.compilers import aot_config as functorch_config
from ..torch_ports.fakes import TracingContext

#: the shape environments of graphs with floats among their inputs
_environments: weakref.WeakSet[Any] = weakref.WeakSet()


def _environment() -> Any:
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    return mode.shape_env if mode is not None else None


@contextlib.contextmanager
def caching_floats() -> Iterator[None]:
    """While a graph with floats among its inputs is given to a compiler: the cache is on if the program has it on."""
    environment = _environment()
    if environment is None:
        yield
        return
    _environments.add(environment)
    with functorch_config.patch(enable_autograd_cache=cache_was_on()):
        yield


def may_be_kept() -> bool:
    """Return whether the graph that is being compiled may be kept.  A backward is compiled late, in the same
    context.
    """
    from ..torch_ports.symbols import SymT, symbol_is_type

    environment = _environment()
    if environment is None or environment not in _environments:
        return True
    assumed = {symbol for guard in environment.guards for symbol in guard.expr.free_symbols}
    assumed.update(environment.replacements)
    return not any(symbol_is_type(symbol, (SymT.FLOAT, SymT.UNBACKED_FLOAT)) for symbol in assumed)

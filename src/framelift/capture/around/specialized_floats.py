"""A fact of torch (seen in 2.11 to 2.13): compilers tell by two names of torch._dynamo that they took a float for a
constant.

`symbolic_convert.TensorifyState.force_specializations` are the names of symbols that were given up on, and
`exc.TensorifyScalarRestartAnalysis` is raised to begin again without them.  Neither module is imported here: where
nobody has imported it, nothing was given up on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..._core import insist, is_a
from ...exc import BackendCompilerFailed
from ...torch_ports.compilers import aot_config as functorch_config
from ...torch_ports.loaded import dynamo_exc, dynamo_symbolic_convert
from ...vocabulary.scopes import scope

_thread = threading.local()


def gave_up_on_floats(error: BaseException | None) -> bool:
    """Return whether a compiler raised this to begin again with floats as constants."""
    module: Any = dynamo_exc.get()
    return module is not None and is_a(error, module.TensorifyScalarRestartAnalysis)


def cache_was_on() -> bool:
    """Within `floats_shown`: whether the program has AOTAutograd's cache switched on."""
    return getattr(_thread, "was_on", False)


@scope
def floats_shown() -> Iterator[None]:
    """While a compiler works on a graph with floats among its inputs: what it takes for a constant must be shown, as a
    guard or by giving up.

    Its cache of graphs remembers neither, so it is off, but for compilers that see to that themselves
    (backends/disk_caches.py).  Of names that it gave up on before it gives up only once.
    """
    module: Any = dynamo_symbolic_convert.get()
    given_up: set[str] = module.TensorifyState.force_specializations if module is not None else set()
    before = set(given_up)

    def put_back() -> None:
        given_up.clear()
        given_up.update(before)

    try:
        given_up.clear()
        _thread.was_on = functorch_config.enable_autograd_cache
        with functorch_config.patch(enable_autograd_cache=False):
            yield
    except BackendCompilerFailed as error:
        error.floats = frozenset(given_up)
        raise
    finally:
        insist(put_back)

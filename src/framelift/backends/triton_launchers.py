"""A fact of torch: where Triton keeps the launchers of kernels.

Kernels are compiled by other processes, which keep them beside Inductor's caches.  Their launchers are
built by this process, with the C compiler, and Triton keeps them in the folder that *its* environment names.  A later
process looks for both beside Inductor's caches, and would build the launchers again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

_VARIABLE = "TRITON_CACHE_DIR"


@contextlib.contextmanager
def launchers_beside_kernels(example_inputs: Sequence[Any]) -> Iterator[None]:
    """While Inductor compiles a graph with these inputs: Triton keeps what it builds where later processes look."""
    device = next((one.device for one in example_inputs if getattr(one, "is_cuda", False)), None)
    if device is None or os.environ.get(_VARIABLE) is not None:
        yield
        return
    from ..torch_ports.inductor import triton_cache_dir

    os.environ[_VARIABLE] = triton_cache_dir(device.index or 0)
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)

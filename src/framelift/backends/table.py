"""Backends: named functions `backend(graph_module, example_inputs) -> callable`.

A backend gets a graph at the level of the torch API whose parameters are inputs like any other, and the real tensors of
the first call.  What it returns takes the same flat inputs and gives a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["BACKENDS", "Backend", "register"]

Backend = Callable[..., Callable[..., Any]]

BACKENDS: dict[str, Backend] = {}


def register(name: str) -> Callable[[Backend], Backend]:
    """Register a backend under a name.

    >>> from framelift.backends.registry import register
    >>> @register("printing")
    ... def printing(graph_module, example_inputs):
    ...     graph_module.graph.print_tabular()
    ...     return graph_module.forward
    """
    def keep(backend: Backend) -> Backend:
        BACKENDS[name] = backend
        return backend
    return keep

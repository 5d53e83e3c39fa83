"""Backends: named functions `backend(graph_module, example_inputs) -> callable`.

A backend gets a graph at the level of the torch API whose parameters are inputs like any other, and the real
tensors of the first call.  What it returns takes the same flat inputs and gives a tuple.  Optional attributes of a
backend: `reset()` is called by `framelift.reset()`, `compiler_name` is its name in messages, `backend_ctx_ctor()`
gives a context entered around each run of its graphs, `get_compiler_config()` is shown by the compiled callable.
Promises, True or absent: `reuses_equal_graphs`, `runs_graphs_eagerly`, `unrolls_recurrent_networks`, `has_disk_cache`
and `keeps_memory_of_nodes` (docs/howto/backend.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from ..exc import WrongArgument

Backend = Callable[..., Callable[..., Any]]
_B = TypeVar("_B", bound=Backend)

BACKENDS: dict[str, Backend] = {}
#: name -> tags, for those that have any: "debug", "experimental"
TAGS: dict[str, tuple[str, ...]] = {}


def register(name: str, *tags: str) -> Callable[[Backend], Backend]:
    """Register a backend under a name.

    >>> from framelift.backends.registry import register
    >>> @register("printing")
    ... def printing(graph_module, example_inputs):
    ...     graph_module.graph.print_tabular()
    ...     return graph_module.forward
    """

    def keep(backend: Backend) -> Backend:
        BACKENDS[name] = backend
        TAGS[name] = tags
        return backend

    return keep


@overload
def register_backend(
    compiler_fn: None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable[[_B], _B]: ...
@overload
def register_backend(compiler_fn: _B, name: str | None = None, tags: Sequence[str] = ()) -> _B: ...
def register_backend(compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Register a backend under its own name, or under `name`.  Usable as a decorator, with or without arguments.

    >>> import torch, framelift
    >>> @framelift.register_backend
    ... def counting_nodes(graph_module, example_inputs):
    ...     print(len(graph_module.graph.nodes), "nodes")
    ...     return graph_module.forward
    >>> framelift.compile(lambda x: x + 1, backend="counting_nodes")(torch.ones(1))
    3 nodes
    tensor([2.])
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise WrongArgument(f"a backend is a callable, not {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    if BACKENDS.get(name, compiler_fn) is not compiler_fn:
        raise WrongArgument(f"a backend is already called {name!r}")
    return register(name, *tags)(compiler_fn)

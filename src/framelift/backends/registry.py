"""Finding a backend by name, and running it on one graph.  What a backend is, is said in table.py."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.graph_module import GraphModule

from ..exc import BackendCompilerFailed, InvalidBackend
from ..graph.state import SavedState
from . import builtin  # noqa: F401  (registers its own)
from .table import BACKENDS, Backend, register

__all__ = ["Backend", "compile_graph", "lookup", "names", "register"]


def names() -> list[str]:
    """The registered names."""
    return sorted(BACKENDS)


def lookup(backend: str | Backend, *, mode: str | None = None, options: dict[str, Any] | None = None) -> Backend:
    """The backend a user named or gave, with `mode` and `options` bound to it.  Raises `InvalidBackend`."""
    if isinstance(backend, str):
        known = names()
        if backend not in known:
            near = difflib.get_close_matches(backend, known, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"registered are {', '.join(known)}"
            raise InvalidBackend(f"no backend is called {backend!r}; {hint}")
        found = BACKENDS[backend]
    elif callable(backend):
        found = backend
    else:
        raise InvalidBackend(f"a backend is a name or a callable, not {type(backend).__name__}")
    extra: dict[str, Any] = {}
    if mode is not None and mode != "default":
        extra["mode"] = mode
    if options:
        extra["options"] = options
    return functools.partial(found, **extra) if extra else found


def name_of(backend: Backend) -> str:
    """What a backend is called in messages."""
    inner = backend.func if isinstance(backend, functools.partial) else backend
    for name, registered in BACKENDS.items():
        if registered is inner:
            return name
    return getattr(inner, "__name__", None) or type(inner).__name__


#: (read, write): numbers of the interpreter that a compiler may need otherwise, and that the captured program may have read
_SETTINGS = ((sys.getrecursionlimit, sys.setrecursionlimit), (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
             (sys.getswitchinterval, sys.setswitchinterval))


def compile_graph(backend: str | Backend, graph_module: GraphModule, example_inputs: Sequence[torch.Tensor], *,
                  fake_mode: FakeTensorMode | None = None) -> Callable[..., Any]:
    """Run a backend on one graph, in the torch state the graph will be called in.

    Torch's state, random numbers and the interpreter's settings are left as they were, and a failure is a
    `BackendCompilerFailed`.
    Shapes are static unless `fake_mode` brings a shape environment.
    """
    compiler = lookup(backend) if isinstance(backend, str) else backend
    saved = SavedState()
    settings = [(write, read()) for read, write in _SETTINGS]
    context = TracingContext(fake_mode or FakeTensorMode())
    try:
        with tracing(context):
            compiled = compiler(graph_module, list(example_inputs))
    except Exception as error:
        raise BackendCompilerFailed(name_of(compiler), error) from error
    finally:
        saved.restore()
        for write, value in settings:
            write(value)
    if not callable(compiled):
        error = TypeError(f"it returned an object of type {type(compiled).__name__}, which is not callable")
        raise BackendCompilerFailed(name_of(compiler), error) from error
    return compiled

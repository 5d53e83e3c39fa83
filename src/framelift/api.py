"""The public functions."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _core
from .backends.registry import compile_graph, lookup
from .exc import UnsupportedPlatform
from .run.driver import Driver
from .run.module import OptimizedModule
from .run.record import counts, record_of

__all__ = ["compile", "reset", "stats"]

_compiled: weakref.WeakSet[Any] = weakref.WeakSet()


def compile(model: Any = None, *, backend: str | Callable[..., Any] = "inductor", fullgraph: bool = False,
            dynamic: bool | None = None, mode: str | None = None, options: dict[str, Any] | None = None,
            disable: bool = False, name: str | None = None) -> Any:
    """Capture `model` (a function, method, lambda, callable or module) and run its graph instead.

    Usable as a decorator, with or without arguments.  The first call captures; later calls whose guards hold run the
    compiled graph, others capture again.

    Args:
        backend: a name (`framelift.backends.registry.names()`) or a callable `backend(graph_module, example_inputs)`.
        fullgraph: raise `framelift.exc.Unsupported` instead of running in plain Python what cannot be captured.
        dynamic: accepted for compatibility; shapes are static today, a new shape is a new capture.
        mode, options: passed to Inductor, as torch.compile does.
        disable: return `model` as it is.
        name: shown in messages and reports.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     return x.sin() + 1
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return functools.partial(compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options,
                                 disable=disable, name=name)
    if not callable(model):
        raise TypeError(f"framelift.compile takes a function, module or other callable, not {type(model).__name__}")
    if disable:
        return model
    _check_platform()
    found = lookup(backend, mode=mode, options=options)
    driver = Driver(functools.partial(compile_graph, found), fullgraph=fullgraph, name=name or getattr(model, "__name__", type(model).__name__))
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    function, bound = _root(model)
    compiled = _core.Compiled(function, driver, bound, name)
    _compiled.add(compiled)
    if isinstance(model, torch.nn.Module):
        return OptimizedModule(model, compiled)
    return compiled


def keep_compiled() -> Any:
    """From now on compiled callables are kept alive, and can be walked over: for tools that report at the end of a run."""
    global _compiled
    _compiled = set(_compiled)  # type: ignore[assignment]
    return _compiled


def _root(model: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The Python function whose frame is the root, and the arguments bound to it."""
    if isinstance(model, _core.Compiled):
        return model.function, model.bound
    if isinstance(model, types.FunctionType):
        return model, ()
    if isinstance(model, types.MethodType) and isinstance(model.__func__, types.FunctionType):
        return model.__func__, (model.__self__,)
    method = getattr(type(model), "__call__", None)
    if isinstance(method, types.FunctionType) and not isinstance(model, type):
        return method, (model,)

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    return call, ()


def _check_platform() -> None:
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise UnsupportedPlatform(f"framelift supports CPython 3.11 to 3.13, not {sys.implementation.name} {sys.version.split()[0]}")


def reset() -> None:
    """Forget every capture and all counts; compiled callables stay usable and capture anew."""
    for compiled in list(_compiled):
        compiled.entries.clear()
        compiled.frames.clear()
        if (record := record_of(compiled)) is not None:
            record.clear()
    counts.clear()


def stats() -> dict[str, Any]:
    """Counts since the last reset: captures, graphs, guards, breaks by reason, frames, recompiles.

    >>> import framelift
    >>> sorted(framelift.stats())
    ['breaks', 'captures', 'frames', 'graphs', 'guards', 'recompiles']
    """
    return {"captures": counts.captures, "graphs": counts.graphs, "guards": counts.guards, "breaks": dict(counts.breaks),
            "frames": list(counts.frames), "recompiles": list(counts.recompiles)}

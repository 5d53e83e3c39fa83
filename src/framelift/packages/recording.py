"""Captures of calls as data: a driver that records what it captures, and calls that are captured without being run."""

from __future__ import annotations

import contextlib
import sys
import types
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from .. import _core
from ..backends.carried_work import Work, collecting
from ..capture.compile_entry import Backend
from ..capture.driver import Driver
from ..capture.records.captures import handled
from ..exc import FrameliftError, PackageError
from .captured import Captured

#: what backends made of the graphs of recorded captures
_works: weakref.WeakKeyDictionary[torch.fx.GraphModule, Work] = weakref.WeakKeyDictionary()


def recording(backend: Backend) -> Backend:
    """A backend whose work is kept for packages.  It shares nothing with other callables, and is waited for."""
    inner = backend.compile_graph

    def compile_graph(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        compiled, _works[module] = collecting(inner, module, *args, **kwargs)
        return compiled

    return replace(
        backend, compile_graph=compile_graph, submit=None, background=False, settings=None, reuses_graphs=False
    )


def recording_driver(driver: Driver, fullgraph: bool | None = None) -> Driver:
    """A driver like another one, which records what it captures."""
    made = Driver(
        recording(driver.backend),
        fullgraph=driver.fullgraph if fullgraph is None else fullgraph,
        dynamic=driver.dynamic,
        name=driver.name,
        hooks=driver.hooks,
        declared=driver.declared,
    )
    made.recorded = True
    return made


#: args, kwargs, contexts in which the call is made
Call = tuple[tuple[Any, ...], dict[str, Any], Sequence[contextlib.AbstractContextManager[Any]]]


def capture_calls(native: _core.Compiled, bound: tuple[Any, ...], receiver: Any, calls: Iterable[Call]) -> Any:
    """A native callable with captures of these calls, one graph each, of which none is run.  Its driver records."""
    driver = recording_driver(native.miss, fullgraph=True)
    driver.hooks = replace(driver.hooks, recompile_limit=sys.maxsize)
    made = _core.Compiled(native.function, driver, bound, None, receiver)
    for args, kwargs, contexts in calls:
        driver.seen.clear()  # one graph for each call: sizes that change are no reason for symbolic ones
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            _capture_call(made, tuple(args), kwargs)
    return made


def _capture_call(native: _core.Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def made_for(locals_: tuple[Any, ...]) -> Any:
        fitting = [entry for entry in native.entries if entry.program.check(locals_) is None]
        return fitting[0] if fitting else native.miss(native, locals_)

    made, name = handled(native, args, kwargs, made_for), native.function.__qualname__
    if type(made) is not _core.Entry:
        raise FrameliftError(f"{name} was not captured: a mode, a stance or an option forbids it")
    if made.info.reason_id:
        raise FrameliftError(f"{name} was not captured: {made.info.reason}")


def captured_of(entry: Any) -> Captured:
    """The capture of an entry as data; raises `PackageError` where it has none."""
    info = entry.info
    if info.record is None:
        why = info.not_kept or "it was captured while its captures were not recorded, or under a mode"
        raise PackageError(f"the capture of {info.name} cannot be saved: {why}")
    work = _works.get(info.graph_module) if info.graph_module is not None else None
    return Captured(info.record, work or Work())


def codes_of(entries: Iterable[Any]) -> tuple[types.CodeType, ...]:
    """The code that captures are of."""
    return tuple({code for entry in entries for code in entry.info.codes})

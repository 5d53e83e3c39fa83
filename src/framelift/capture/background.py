"""Entries that run a graph uncompiled while the backend works on it in another process (backends/elsewhere.py).

When the other process is done, such an interim entry answers "not mine" to the next call.  That call is captured
again, this time with the compiled graph, which comes from the disk caches; the new entry takes the place of the
interim one.  So all that a backend asks of sizes and numbers, and all its failures, are what they are without a
background.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from torch.fx.graph_module import GraphModule

from .. import _core, config
from ..exits import Lines
from ..torch_ports.graphs import LazyGraphModule
from . import stance
from .learned_shapes import Learned
from .records.captures import Capture

#: what `compile(background=...)` and `config.background` may say
_ON, _MANUAL = "on", "manual"


class CompileJob(Protocol):
    """A graph that somebody is compiling."""

    @property
    def state(self) -> str: ...
    def is_ready(self) -> bool: ...
    def wait(self, seconds: float | None = None) -> bool: ...


class Manual:
    """A job of nobody: it is done when the program waits for it.  For tests, with any backend."""

    state = ""

    def __init__(self) -> None:
        self._waited = threading.Event()

    def is_ready(self) -> bool:
        return self._waited.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        self._waited.set()
        return True


class Interim:
    """The mark of an interim entry: its job, and what was known of sizes and numbers at its capture.

    `is_compiled`: its graph is compiled already, and the job makes a faster one; `swaps`: that takes its place here.
    """

    def __init__(self, job: CompileJob, is_compiled: bool = False, swaps: bool = True) -> None:
        self.job, self.is_compiled, self.swaps = job, is_compiled, swaps
        self.seen = Learned()

    def shared(self) -> Interim:
        """Return the mark of one more entry with the same graph."""
        return Interim(self.job, self.is_compiled, self.swaps)

    def is_over(self) -> bool:
        """Return whether the entry answers no call any more, since what it waited for is there."""
        return self.swaps and self.job.is_ready() and (not self.is_compiled or self.job.state == "made")


def is_wanted(asked: str | bool | None) -> str:
    """ "on", "manual", or "": not in the background.  The callable decides, then the stance, then the configuration."""
    if asked is None:
        asked = _ON if stance.current().name == "background" else config.background
    return _MANUAL if asked == _MANUAL else _ON if asked in (True, _ON) else ""


def submitting(
    submit: Callable[..., CompileJob | None], compile_graph: Callable[..., Any], info: Capture, way: str
) -> Callable[..., Any]:
    """A backend that hands the graph over and runs it uncompiled; what cannot be handed over is compiled now."""

    def backend(graph_module: GraphModule, example_inputs: Any, **options: Any) -> Any:
        job = Manual() if way == _MANUAL else submit(graph_module, example_inputs, **options)
        if job is None:
            return compile_graph(graph_module, example_inputs, **options)
        info.interim = Interim(job)
        LazyGraphModule.force_recompile(graph_module)
        return graph_module.forward

    return backend


def until_ready(interim: Interim) -> Lines:
    """Around an interim entry: it is for no call any more once the compiled graph is there."""
    return Lines(
        before=("if stage_is_ready(): return MISS",), names={"MISS": _core.MISS, "stage_is_ready": interim.is_over}
    )


def ready_entry(entries: list[Any], locals_: tuple[Any, ...]) -> Any:
    """The interim entry that is over and whose guards hold for this call; those for few sizes come first."""
    found = [
        entry
        for entry in entries
        if entry.info.interim is not None and entry.info.interim.is_over() and entry.program.check(locals_) is None
    ]
    return min(found, key=lambda entry: entry.info.relations is not None, default=None)


def take_out(entries: list[Any], entry: Any) -> int:
    """Remove an entry; its place.  A `reset` of another thread may remove it at any moment."""
    place = next((i for i, one in enumerate(entries) if one is entry), 0)
    with contextlib.suppress(ValueError):
        entries.remove(entry)
    return place


def interim_entries(compiled: Any) -> Iterator[Any]:
    """The interim entries of a compiled callable and of what it captured of its callees."""
    for entries in (compiled.entries, *compiled.frames.values()):
        yield from (entry for entry in entries or () if entry.info.interim is not None)


def compiling(compiled: Any) -> list[str]:
    """The functions whose graphs are still being compiled."""
    return [entry.info.name for entry in interim_entries(compiled) if not entry.info.interim.job.is_ready()]


def wait_for(compiled: Any, seconds: float | None = None) -> bool:
    """Wait for the backend; whether it is done with all that it was given."""
    return all([entry.info.interim.job.wait(seconds) for entry in list(interim_entries(compiled))])

"""Wrappers of a graph and of the run of an entry: one table for each of them, in the order of application.

The first stage of a table is the innermost.  A stage says when it applies, and what it puts around: lines of the
entry's own source, which cost no call, or a function that calls what it wraps.  The code of the stages is in the files
beside this one.  Nothing else wraps a graph or an entry.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from ... import _core
from ...exits import Lines, entry_around
from ...graph.analysis.replay import with_histories
from ...graph.metadata.fakes import UNKNOWN
from ...graph.metadata.live_fakes import leaving_none_open
from ...graph.metadata.wrappers import is_wrapper
from ...graph.state.settings import inside
from ...graph.state.torch_state import choose_kernels, keeping_kernels
from ...overriding.modes import without_modes
from ...overriding.subclasses import with_types
from ...torch_ports.modes import DisableTorchFunction
from ..background import until_ready
from ..breaks import handing_over
from ..ranks import failing_with_ranks, several
from ..records.missed import watching_hooks, watching_memory
from .failing import Undo, checked, keeping_settings, noting_failures, raising, run_uncompiled, under, undoing
from .leaving import leaving, unseen_by_hooks
from .symbolic_entries import generators_in, putting_back
from .tangents import giving_tangents, without_history_of
from .versions import counting_writes, counts_writes

if TYPE_CHECKING:
    from ...exits.captured_program import CapturedProgram
    from ...graph.symbols.relations import Preamble
    from ...recording.finished import Finished
    from ..records.captures import Capture

_Context = TypeVar("_Context")


@dataclass(frozen=True, slots=True)
class Stage(Generic[_Context]):
    """Where `applies(context)`, `lines(context)` or `wrap(inner, context)` is put around what there is so far.

    Both live as long as the entry: they keep what they need of the context, never the context itself.  `lines` are for
    entries alone, and no stage has both.
    """

    name: str
    applies: Callable[[_Context], Any]
    wrap: Callable[[Any, _Context], Any] | None = None
    lines: Callable[[_Context], Lines] | None = None


def wrapped(stages: Sequence[Stage[_Context]], inner: Any, context: _Context) -> Any:
    """`inner` with the stages around it that apply."""
    for stage in stages:
        if stage.applies(context):
            assert stage.wrap is not None, stage.name
            inner = stage.wrap(inner, context)
    return inner


def entry_with(
    stages: Sequence[Stage[_Context]], build: Callable[[Sequence[Lines]], Any], name: str, context: _Context
) -> tuple[Any, Any]:
    """The entry, which `build` makes with lines around its own, and what runs it: the entry itself, unless stages that
    wrap it apply.
    """
    entry = None
    lines: list[Lines] = []
    for stage in stages:
        if not stage.applies(context):
            continue
        if stage.wrap is None:
            assert stage.lines is not None, stage.name
            lines.append(stage.lines(context))
            continue
        inner = build(lines)
        entry = entry or inner
        build, lines = functools.partial(entry_around, stage.wrap(inner, context), name), []
    run = build(lines)
    return entry or run, run


# ---- a run of a graph, compiled or not: torch's settings around it ----


@dataclass(frozen=True, slots=True)
class Run:
    """A graph about to be run: what was recorded, without the program's tensors."""

    finished: Finished

    @property
    def around(self) -> Callable[[], Any]:
        """The settings that the graph is compiled and run under."""
        settings = self.finished.settings
        return functools.partial(inside, settings) if settings is not None else contextlib.nullcontext

    @property
    def is_repeatable(self) -> bool:
        """True if a run that failed has changed nothing."""
        finished = self.finished
        return not finished.mutated and (not finished.effect_level or finished.violations > 0)


def _chooses_kernels(run: Run) -> bool:
    return any(node.target is choose_kernels for node in run.finished.graph_module.graph.nodes)


AROUND_RUN: tuple[Stage[Run], ...] = (
    Stage("without grad mode", lambda run: run.finished.without_grad, lambda graph, run: torch.no_grad()(graph)),
    Stage("settings restored", lambda run: run.finished.changes_state, lambda graph, run: keeping_settings(graph)),
    Stage("kernel choice restored", _chooses_kernels, lambda graph, run: under(graph, keeping_kernels)),
    Stage("transforms closed", lambda run: run.finished.transforms, lambda graph, run: under(graph, leaving_none_open)),
    Stage("settings", lambda run: run.finished.settings is not None, lambda graph, run: under(graph, run.around)),
    Stage(
        "assumptions checked",
        lambda run: run.finished.violations,
        lambda graph, run: checked(graph, run.finished.violations, run.finished.effect_level > 0),
    ),
)


# ---- the compiled graph, as the entry's source calls it ----


@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled graph; `is_compiled`: the backend gave something else than the graph itself."""

    program: CapturedProgram
    run: Run
    is_compiled: bool
    info: Capture

    @property
    def meets_ranks(self) -> bool:
        """Return whether the graph waits for other ranks."""
        nodes = self.run.finished.graph_module.graph.nodes if several() else ()
        return any(getattr(node.target, "namespace", "") == "_c10d_functional" for node in nodes) or (
            several() and any(is_wrapper(type(one)) for one in self.program.finished.inputs)
        )


def _uncompiled(run: Run) -> Callable[..., Any]:
    return wrapped(AROUND_RUN, functools.partial(run_uncompiled, run.finished.graph_module), run)


def _noted(graph: Callable[..., Any], context: Graph) -> Callable[..., Any]:
    return noting_failures(graph, functools.partial(_uncompiled, context.run), context.run.is_repeatable)


def _gives_wrappers(context: Graph) -> bool:
    """Return whether a result of a wrapper class is one of several, which may be differentiated without it."""
    outputs = context.program.plan.outputs
    return context.is_compiled and len(outputs) > 1 and any(is_wrapper(type(one)) for one in outputs)


AROUND_GRAPH: tuple[Stage[Graph], ...] = (
    Stage("failures looked into", lambda c: c.is_compiled and c.program.finished.effect_level != UNKNOWN, _noted),
    Stage("gradients of wrappers", _gives_wrappers, lambda graph, c: giving_tangents(graph)),
    Stage(
        "inputs that no gradient reaches",
        lambda c: c.is_compiled and c.program.finished.unreached,
        lambda graph, c: without_history_of(graph, c.program.finished.unreached),
    ),
    Stage(
        "results without history",
        lambda c: c.program.finished.without_history,
        lambda graph, c: with_histories(graph, c.program.finished.without_history, c.is_compiled),
    ),
    Stage(
        "subclasses",
        lambda c: True,  # with_types looks at the classes
        lambda graph, c: with_types(graph, c.program.given, c.program.plan.classes),
    ),
    Stage(
        "writes counted",
        lambda c: c.is_compiled and counts_writes(c.program.finished),
        lambda graph, c: counting_writes(graph, c.program.finished.writes),
    ),
    Stage("modes off", lambda c: c.program.overrides, lambda graph, c: without_modes(graph)),
    Stage(
        "failures of ranks",
        lambda c: c.meets_ranks,
        lambda graph, c: failing_with_ranks(graph, f"{c.info.name} ({c.info.file}:{c.info.line})"),
    ),
)


# ---- the entry's function, made from its source ----


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry with a plan; `inputs` are its own, `lines` run before its graph, `undo` says how it is taken back."""

    program: CapturedProgram
    info: Capture
    inputs: list[Any]
    lines: Preamble | None
    undo: Undo | None

    @property
    def written(self) -> tuple[int, ...]:
        """The inputs whose memory the graph writes."""
        written = {id(self.program.finished.inputs[i]) for i in self.program.finished.mutated}
        return tuple([i for i, one in enumerate(self.inputs) if id(one) in written])

    @property
    def reached(self) -> list[int]:
        """The inputs to whose gradients the graph adds."""
        reached = {id(tensor) for tensor in self.program.reached}
        return [i for i, tensor in enumerate(self.inputs) if id(tensor) in reached]


def _put_back(entry: Any, c: Entry | Plain) -> Any:
    assert c.lines is not None
    return putting_back(entry, generators_in(c.lines))


def _handed_over(c: Entry) -> Lines:
    assert c.program.point is not None
    return handing_over(c.program.point)


def _undone(c: Entry) -> Lines:
    assert c.undo is not None
    return undoing(c.undo)


#: neither modes nor subclasses see the entry's own torch calls; what it does to the stack of modes it does
_UNSEEN = Lines(block="with stage_unseen():", names={"stage_unseen": DisableTorchFunction})


def _may_save(c: Entry) -> bool:
    """Return whether the graph saves tensors, for hooks to see."""
    return c.program.plan.acts and any(_core.of_tensor(tensor, "requires_grad") for tensor in c.program.finished.inputs)


def _meets_modes(c: Entry) -> bool:
    return c.program.overrides or c.program.leaves_modes


AROUND_ENTRY: tuple[Stage[Entry], ...] = (
    Stage("handed over at a break", lambda c: c.program.point is not None, lines=_handed_over),
    Stage("drawn numbers put back", lambda c: c.lines is not None and c.lines.drawn.generators, _put_back),
    Stage("undone when it fails", lambda c: c.undo is not None, lines=_undone),
    Stage("unseen by saved-tensor hooks", _may_save, lines=lambda c: unseen_by_hooks()),
    Stage(
        "torch's state left changed",
        lambda c: c.program.finished.left_state,
        lambda entry, c: leaving(entry, c.program.finished.left_state, c.program.finished.in_region),
    ),
    Stage(
        "shared memory as captured",
        lambda c: c.program.finished.mutated and len(c.inputs) > 1,
        lines=lambda c: watching_memory(tuple(c.inputs), c.written, c.info),
    ),
    Stage("gradients without hooks", lambda c: c.program.reached, lines=lambda c: watching_hooks(c.reached, c.info)),
    Stage("unseen by modes", _meets_modes, lines=lambda c: _UNSEEN),
    Stage(
        "until the backend is done",
        lambda c: c.info.interim is not None and c.info.interim.swaps,
        lines=lambda c: until_ready(c.info.interim),
    ),
)


# ---- an entry without a plan: the frame runs eagerly ----


@dataclass(frozen=True, slots=True)
class Plain:
    """An entry that says "run eagerly"; `raises` says what left the frame in the rehearsal, if anything did."""

    lines: Preamble | None
    raises: str | None


def _expected_to_raise(entry: Any, c: Plain) -> Any:
    assert c.raises is not None
    return raising(entry, c.raises)


AROUND_PLAIN_ENTRY: tuple[Stage[Plain], ...] = (
    Stage("drawn numbers put back", lambda c: c.lines is not None and c.lines.drawn.generators, _put_back),
    Stage("expected to raise", lambda c: c.raises is not None, _expected_to_raise),
)

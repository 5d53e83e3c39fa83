"""From the plan of a rehearsal to what its entry runs: the graph, compiled by the backend, and the stages around it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _core
from .._core import id, is_a
from ..cache.graph_data import Metadata, body_metadata
from ..cache.refusals import NotMine
from ..exc import BackendCompilerFailed
from ..exits import PLAIN, build_entry
from ..exits.captured_program import CapturedProgram, GraphCompileReason, SeenInRehearsal
from ..graph.analysis.replay import OWN
from ..graph.fx.examples import examples_for, forget_tensors, without_alpha
from ..graph.fx.named_places import NamedPlaces, source_text
from ..graph.fx.node_metadata import carry_over, describe, fill_examples
from ..graph.fx.placeholder_names import name_placeholders
from ..graph.fx.shared_memory import groups_as_recorded, sharing_of
from ..graph.metadata.facts import SymbolicFacts
from ..graph.symbols.numbers import Float
from ..graph.symbols.relations import relation_text
from ..overriding.modes import MODES_AROUND
from ..overriding.subclasses import plain_examples
from ..recording.described_tape import DescribedTape
from ..recording.drawn_numbers import note_decided
from ..recording.recorder_parts import Habits, changed
from ..torch_ports.autograd import is_grad_enabled
from ..torch_ports.modes import EnableTorchFunction
from ..vocabulary.places import places_of
from ..vocabulary.quiet_capture import collections_as_usual
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from . import background
from .around.failing import Undo, undo_of
from .around.overlapping_inputs import as_recorded, compiler_for
from .around.ranges import EntryRanges as Ranges
from .around.specialized_floats import floats_shown
from .around.stages import (
    AROUND_ENTRY,
    AROUND_GRAPH,
    AROUND_PLAIN_ENTRY,
    AROUND_RUN,
    Entry,
    Graph,
    Plain,
    Run,
    entry_with,
    wrapped,
)
from .around.symbolic_entries import Relations, check_promises, first_given, names_for, preamble_of
from .breaks import Breaks
from .dynamo_functions import CUDAGRAPHS
from .equal_graphs import compile_once, compile_per_loop
from .freezing import frozen
from .records.callbacks import show_entry
from .records.captures import Capture
from .records.counters import cache_hits
from .records.user_names import MODULE_CALLS
from .sharing import Settings

if TYPE_CHECKING:
    from ..cache.capture_record import Kept
    from ..cache.symbol_data import Numbers
    from ..exits.entry import EntryPlan
    from ..graph.symbols.relations import Preamble
    from ..recording.finished import Finished
    from ..rehearsal.session import Rehearsal

CompileGraph = Callable[..., Any]  # as backends.registry.compile_graph, the backend bound


@dataclass
class Backend:
    """The compiler of one callable's graphs, and how it is used."""

    compile_graph: CompileGraph
    name: str = ""
    compiler: Any = None  # what `compile_graph` is made of, with its options
    submit: CompileGraph | None = None  # hands a graph to another process
    background: bool | str | None = None  # as the user asked
    settings: Settings | None = None  # with which captures are shared; None: with nobody
    reuses_graphs: bool = False  # what the backend gives for one graph serves for an equal one
    is_eager: bool = False  # graphs run as they are, operation by operation
    unrolls: bool = False  # every step of a recurrent network is written out
    described: bool = False  # it may read what a graph says of its nodes
    has_disk_cache: bool = False  # what it compiled is kept on disk: so are captures, where nothing else is asked for
    habits: Habits = field(default_factory=Habits)  # what it does to graphs


class Compiled(NamedTuple):
    """An entry that was made of a captured program, and what keeping it on disk needs beside that."""

    run: Any  # the entry's function
    inputs: list[Any]  # of the entry: tensors, and origins of numbers
    program: CapturedProgram
    lines: Preamble | None  # that run before the graph
    undo: Undo | None
    bodies: Metadata  # what was written on the nodes of bodies before the graph was compiled


def compile_entry(
    session: Rehearsal,
    plan: EntryPlan,
    stop: BaseException | None,
    info: Capture,
    backend: Backend,
    is_checked: bool = True,
) -> Compiled:
    """Compile what a rehearsal has recorded, up to the break `stop` where there is one.

    `is_checked`: the entry looks in each call at what it relies on of symbolic numbers.
    """
    info.interim = None  # of an attempt before
    recorder = session.recorder
    with info.phase("graph"):
        finished = recorder.finish(plan.outputs)
    bodies = body_metadata(finished.graph_module)
    if has_graph := bool(finished.n_ops or plan.outputs):
        finished = frozen(session, finished)
    program = _program_of(session, plan, finished, stop)
    if has_graph:
        name_placeholders(finished.graph_module, program.given, session.world.memo, _places(session))
        if recorder.symbols is not None:
            info.given = first_given(session, finished)
    graph = _compiled_graph(program, info, backend)
    lines = None
    if recorder.symbols is not None:
        is_module_call = info.owner is not None and session.function.__code__ in MODULE_CALLS
        check_promises(recorder.symbols, info.owner() if info.owner is not None and is_module_call else None)
        lines = preamble_of(recorder.symbols, finished.arguments if has_graph else None, is_checked)
        note_decided(session.function.__code__, lines.drawn.relations)
    inputs = _inputs(program, lines)
    info.stacks = tuple({id(step.places): step.places for step in recorder.tape}.values())
    undo = None
    if not Run(finished).is_repeatable:
        undo = undo_of(recorder.tape, finished, inputs, plan.acts, backend.is_eager, info.resumed is not None)
    return Compiled(_entry(program, graph, inputs, lines, undo, info), inputs, program, lines, undo, bodies)


def compile_kept(kept: Kept, info: Capture, backend: Backend, undo: Undo | None) -> Any:
    """The function of an entry that was kept on disk: compiled as after the rehearsal that it came from.  Raises
    `NotMine` where relations between symbolic numbers do not hold.
    """
    if kept.lines is not None:
        asked, _ = _plain_entry(kept.lines, info, None)
        if asked(kept.given, ()) is not _core.PLAIN:
            raise NotMine("sizes or numbers are not as the capture relied on")
    program = kept.program
    if program is None:
        info.replayable = kept.rest["raises"] is not None
        return _plain_entry(kept.lines, info, kept.rest["raises"])[0]
    info.interim, info.general = None, kept.rest["general"]
    finished = program.finished
    if finished.mutated and not groups_as_recorded(sharing_of(finished.inputs, finished.mutated), finished.shared):
        raise NotMine("inputs share memory in another way, and the graph writes to them")
    graph = _compiled_graph(program, info, backend)
    if kept.lines is not None:
        _check_relations(kept.numbers, kept.lines)
    return _entry(program, graph, _inputs(program, kept.lines), kept.lines, undo, info)


def _program_of(session: Rehearsal, plan: EntryPlan, finished: Finished, stop: BaseException | None) -> CapturedProgram:
    recorder = session.recorder
    at_break = (stop.sentence, places_of(stop.places)) if is_a(stop, Interrupt) else ()
    return CapturedProgram(
        plan,
        finished,
        session.end.point,
        GraphCompileReason.of(session.end.point, *at_break),
        overrides=bool(session.moment.modes or recorder.overrides),
        leaves_modes=bool(MODES_AROUND.of(session).leaves),
        reached=tuple(recorder.gradients.reached),
        symbols=recorder.symbols,
        input_facts=recorder.input_facts,
        seen=SeenInRehearsal(
            session.function.__code__,
            session.guards,
            session.world.memo,
            _places(session),
            bool(recorder.relied),
            tuple(CUDAGRAPHS.found(session) or ()),
        ),
    )


def _places(session: Rehearsal) -> NamedPlaces:
    tape = session.tape
    return tape.places if is_a(tape, DescribedTape) else NamedPlaces(session.function.__code__)


def _inputs(program: CapturedProgram, lines: Preamble | None) -> list[Any]:
    """The inputs of the entry: those of its graph, unless lines before the graph take others."""
    if lines is not None:
        return [*lines.tensors, *lines.places]
    return program.finished.inputs if program.has_graph else []


def _entry(
    program: CapturedProgram,
    graph: Callable[..., Any] | None,
    inputs: list[Any],
    lines: Preamble | None,
    undo: Undo | None,
    info: Capture,
) -> Any:
    """Build an entry and its stages, and return the function that runs it."""
    before: tuple[str, ...] = ()
    names = None
    if lines is not None:
        info.relations = Relations(lines)
        before, names = lines.lines, names_for(lines, info.relations)
    info.replayable = Run(program.finished).is_repeatable
    build = functools.partial(build_entry, program.plan, graph, info.name, before, names)
    with info.phase("entry"):
        entry, run = entry_with(AROUND_ENTRY, build, info.name, Entry(program, info, inputs, lines, undo))
        show_entry(info, entry, program.plan.changed)
    info.source, info.ranges = entry.__source__, Ranges(entry.__globals__, info.name)
    return run


def _check_relations(numbers: Numbers | None, lines: Preamble) -> None:
    """Check that the lines before the graph have the relations of the backend; raises `NotMine`."""
    checked = {text for text, _ in lines.checks}
    for relation in numbers.relied_on() if numbers is not None else ():
        if relation_text(relation) not in checked:
            raise NotMine(f"the backend relies on {relation}")


def _compiled_graph(program: CapturedProgram, info: Capture, backend: Backend) -> Callable[..., Any] | None:
    """The graph of a program, compiled in the settings it wants, and with its stages; None: there is nothing to
    compute.
    """
    finished = program.finished
    info.operations = finished.n_ops
    if not program.has_graph:
        return None
    module = info.graph_module = finished.graph_module
    info.examples = finished.inputs
    module.compile_subgraph_reason = program.ending
    _say_more(program, info, backend)
    run = Run(changed(finished, inputs=[], arguments=None))  # lives as long as the entry; these are the program's
    with info.phase("backend"):
        compile_graph = _compiler_of(program, info, backend)
        with (
            run.around(),
            torch.set_grad_enabled(is_grad_enabled() and not finished.without_grad),
            EnableTorchFunction(),
        ):
            hits = cache_hits()
            collecting = contextlib.nullcontext() if backend.is_eager else collections_as_usual()
            with collecting, _shown(program, info), _as_supposed(program, info, backend) as check:
                compiled = check(compile_graph(module, plain_examples(finished.inputs)))
            info.from_cache = cache_hits() > hits
        graph = wrapped(AROUND_RUN, compiled, run)
    info.examples = ()
    is_compiled = _is_compiled(compiled, module)
    info.runs_as_recorded = backend.is_eager or not is_compiled
    made: Callable[..., Any] = wrapped(AROUND_GRAPH, graph, Graph(program, run, is_compiled, info))
    return made


def _is_compiled(compiled: Any, module: Any) -> bool:
    return compiled is not module and compiled != module.forward


@scope
def _as_supposed(program: CapturedProgram, info: Capture, backend: Backend) -> Iterator[Callable[[Any], Any]]:
    """Where the capture relies on a backend that runs graphs as they are: what this one gives back tells whether it
    does.  If not, there is another rehearsal.
    """
    relied, module = program.seen is not None and program.seen.relied, info.graph_module
    before = _operations(module) if relied else ()

    def learn() -> None:
        backend.habits.runs_as_is = backend.habits.is_supposed = False

    def refusal() -> Interrupt:
        info.graph_module = None
        stop = Interrupt("backend-cannot", f"{backend.name} does not run the graph as it is")
        stop.first = learn
        return stop

    def check(compiled: Any) -> Any:
        if relied and (_is_compiled(compiled, module) or _operations(module) != before):
            raise refusal()
        return compiled

    try:
        yield check
    except BackendCompilerFailed as error:
        if not relied:
            raise
        raise refusal() from error


def _operations(module: Any) -> tuple[Any, ...]:
    return tuple([node.target for node in module.graph.nodes])


class _Shown(threading.local):
    seen: SeenInRehearsal | None = None
    info: Capture | None = None


_now = _Shown()


@scope
def _shown(program: CapturedProgram, info: Capture) -> Iterator[None]:
    """While a backend works on the graph of this program."""
    before = _now.seen, _now.info
    try:
        _now.seen, _now.info = program.seen, info
        yield
    finally:
        _now.seen, _now.info = before


def capture_now() -> Capture | None:
    """Return the capture whose graph is being compiled."""
    return _now.info


def guards_now() -> list[tuple[str, str]]:
    """Return the guards so far of the capture whose graph is being compiled: the source and the kind of each."""
    guards = _now.seen.guards if _now.seen is not None else ()
    return [(source_text(guard.origin), guard.kind) for guard in guards]


def code_now() -> list[Any]:
    """The code that was rehearsed for the graph that is being compiled: its root."""
    return [_now.seen.code] if _now.seen is not None else []


def _say_more(program: CapturedProgram, info: Capture, backend: Backend) -> None:
    """Metadata for backends that may read it, and of graphs that were compiled."""
    module, seen = program.finished.graph_module, program.seen
    if info.owner is not None:
        carry_over(module, info.owner())
    if seen is None:
        return
    for annotation in seen.annotations:
        module.meta["cudagraph_annotation"] = annotation
    if backend.described:
        describe(module, program.given, seen.memo, seen.places, info.compile_id)


def _compiler_of(program: CapturedProgram, info: Capture, backend: Backend) -> Any:
    """Return the function that compiles this graph, or one that runs it as it was recorded.

    It is the backend, in another process or not, with examples of symbolic inputs.
    """
    finished = program.finished
    if not backend.is_eager and any(how == OWN for _, how in finished.without_history):
        return as_recorded(info.name, "gives tensors over one memory that have histories of their own")
    sharing = sharing_of(finished.inputs, finished.mutated) if finished.mutated and not backend.is_eager else None
    if sharing is None or not sharing.is_shared:
        return _compiler_apart(program, info, backend)
    sharing.note(finished.graph_module)
    code = program.seen.code if program.seen is not None else None
    compiler = functools.partial(_compiler_apart, program, info, backend)
    return compiler_for(compiler, sharing, info.name, code, backend.reuses_graphs)


def _compiler_apart(program: CapturedProgram, info: Capture, backend: Backend) -> Any:
    """Return the function that compiles a graph whose inputs may share memory as any others do."""
    finished, symbols, compiler = program.finished, program.symbols, backend.compile_graph
    way = background.is_wanted(backend.background)
    if way and backend.submit is not None and not backend.is_eager:
        compiler = background.submitting(backend.submit, backend.compile_graph, info, way)
    elif symbols is None and backend.reuses_graphs and backend.settings is not None:
        compiler = compile_once(compiler, backend.settings, info)
    elif program.point is not None and program.seen is not None:
        stretch = Breaks.stretch_of(program.seen.code, program.point)
        if stretch is not None and not _takes_numbers(program):
            compiler = compile_per_loop(compiler, stretch, plain_examples(finished.inputs), info)
        elif stretch is not None and symbols is not None and finished.arguments is not None:
            compiler = compile_per_loop(compiler, stretch, finished.arguments, info, symbols.env)
    if symbols is None:
        return compiler
    if finished.mutated and finished.shared:
        raise Interrupt("symbolic-number", "writing to inputs that share memory")
    assert finished.arguments is not None
    examples, mode = examples_for(symbols, finished.graph_module, finished.arguments, program.input_facts())
    takes_floats = any(type(argument) is Float for argument in finished.arguments)
    watching = floats_shown() if takes_floats else contextlib.nullcontext()
    if takes_floats and not backend.is_eager:
        without_alpha(finished.graph_module)

    def compile_graph(graph_module: Any, _inputs: Any) -> Any:
        if backend.described:
            fill_examples(graph_module, lambda: mode)
        try:
            with watching:
                return compiler(graph_module, examples, fake_mode=mode)
        finally:
            forget_tensors(mode)

    return compile_graph


def _takes_numbers(program: CapturedProgram) -> bool:
    """Return whether a graph has symbolic numbers, or tensors of symbolic sizes, as inputs."""
    facts = program.input_facts()
    return any(not is_a(one, torch.Tensor) or type(facts[id(one)]) is SymbolicFacts for one in program.given)


def plain_entry(session: Rehearsal, info: Capture, raises: str | None) -> tuple[Any, list[Any], Preamble | None]:
    """Return what the entry of a frame that runs eagerly runs, if anything.

    It runs eagerly where the relations hold that led there. `raises`: what leaves the frame, in words.
    """
    symbols = session.symbols
    lines: Preamble | None = None
    if symbols is not None:
        try:
            lines = preamble_of(symbols, None)
        except Interrupt:  # then wherever the guards hold
            pass
    return (*_plain_entry(lines, info, raises), lines)


def _plain_entry(lines: Preamble | None, info: Capture, raises: str | None) -> tuple[Any, list[Any]]:
    run, inputs = None, []
    if lines is not None:
        info.relations = Relations(lines)
        run = build_entry(PLAIN, None, info.name, lines.lines, names_for(lines, info.relations))
        inputs = [*lines.tensors, *lines.places]
    return wrapped(AROUND_PLAIN_ENTRY, run, Plain(lines, raises)), inputs

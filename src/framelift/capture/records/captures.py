"""Captures, as data: one record per entry, one per compiled callable, and the process's counts.

`Capture` is heavy (graph, guard program) and lives as long as its entry; `Note` is what stays of it in the callable's
`Record`.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import operator
import time
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ... import _core
from ...exc import WrongType
from ...graph.analysis.provenance import ChainStep
from ...guards.kinds import TensorFacts, tensor_facts
from ...guards.misses import Miss
from ...guards.sentences import described, path
from ...vocabulary.places import Place, brief
from ...vocabulary.scopes import scope
from ...vocabulary.shown_values import shown_value
from ..resumed import Resumed
from .events import notify
from .spent_time import SpentTime
from .user_names import Names

if TYPE_CHECKING:
    from ..._core import GuardProgram

_MOST_NOTES = 1000  # per compiled callable; the oldest go first


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Why capturing ended: the declared reason, the frames it struck (outermost first), and the value's origin."""

    reason: str
    sentence: str
    hint: str
    places: tuple[Place, ...] = ()
    provenance: tuple[ChainStep, ...] = ()
    detail: str = ""  # what the sentence is about: the callable's or the type's name

    @property
    def cause(self) -> tuple[Any, ...]:
        """The key of a cause, whichever frames were captured when it was met."""
        return self.reason, self.places[-1] if self.places else None, self.sentence

    def follows_from(self, resumed: Resumed | None) -> bool:
        """Return whether it is no cause of its own, but follows from the break before it.

        That is so for the next step of a loop that one interrupted, and for an expression that uses what one gave back.
        """
        if resumed is None or self.reason != "opaque-object" or len(self.places) != 1:
            return False
        struck = self.places[0]
        return any(struck == place for place in resumed.loops + resumed.after) or any(
            map(struck.encloses, resumed.after)
        )


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span of time on the process's clock (time.perf_counter)."""

    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor among the inputs of a graph: where it comes from, and its facts; None: no guard has any."""

    origin: str
    facts: TensorFacts | None

    def __str__(self) -> str:
        facts = self.facts
        return (
            self.origin if facts is None else f"{self.origin}: {str(facts.dtype).removeprefix('torch.')} {facts.size}"
        )

    @classmethod
    def guarded(cls, program: GuardProgram, node: int) -> Input:
        """The facts that a guard program knows of one of its inputs."""
        return cls(
            path(program, node), next((value for kind, value in program.describe(node)[3] if kind == "TENSOR"), None)
        )


@dataclass(slots=True, weakref_slot=True, eq=False)
class Note:
    """What stays of a capture: plain values, no object of the user's, no graph."""

    name: str
    file: str
    line: int
    root: bool = True
    number: int = -1
    guard_count: int = 0
    operations: int = 0
    has_graph: bool = False
    stop: GraphBreak | None = None  # where capturing ended
    miss: Miss | None = None  # what failed before; None for the first capture
    done: str = ""  # what the capture does about it
    cpu_seconds: float = 0.0
    phases: list[TimeSpan] = field(default_factory=list)
    spent: SpentTime = field(default_factory=SpentTime)  # rehearsing time by the program's functions
    resumed: Resumed | None = None  # for a capture that resumes after a break
    capture: Callable[[], Capture | None] = lambda: None  # the capture itself, while it lives
    shared_with: str = ""  # the callable it was made for, where that is another one
    shares_graph: bool = False  # an equal graph was compiled before
    from_cache: bool = False  # torch's disk cache had what was compiled
    loaded: bool = False  # from disk: nothing was rehearsed
    not_kept: str = ""  # why it could not be kept on disk
    fallbacks: list[str] = field(default_factory=list)  # what of its graph was compiled without which rewrites
    rewrites: list[str] = field(default_factory=list)  # what was changed of its graph, with what that saves
    generated: list[str] = field(default_factory=list)  # files of the code that Inductor generated

    @property
    def started(self) -> float:
        return self.phases[0].start if self.phases else 0.0

    @property
    def seconds(self) -> float:
        """Wall time of all phases."""
        return sum(phase.seconds for phase in self.phases)


@dataclass(slots=True)
class Refused:
    """A function whose calls run eagerly without a capture being tried: how often, and why."""

    why: str  # limit, defect, code, or first: for what only a first call does
    name: str
    file: str
    line: int
    sentence: str
    calls: int = 0
    miss: Miss | None = None  # limit: the last one


Owner = weakref.ref  # of the module whose method is called


@dataclass(slots=True, eq=False)
class Capture(Note):
    """One capture: what `entry.info` holds."""

    owner: Owner[Any] | None = None  # the module whose method was captured
    thread: int = 0  # the one that captured it
    compile_id: Any = None  # torch's CompileId, as its logs and traces show it
    code_ref: Callable[[], Any] | None = None
    graph_module: Any = None
    source: str = ""  # the entry, as Python source
    general: bool = False  # sizes 0 and 1 are no constants of the capture: one for all sizes
    replayable: bool = False  # a call whose graph fails is run again in eager mode
    stacks: tuple[Any, ...] = ()  # the program's frames at the operations of the graph
    failures: int = 0  # calls whose graph failed where eager mode did not
    reason: str = ""  # why the frame runs eagerly, "" when it was captured
    reason_id: str = ""
    where: str = ""  # the user's line where capturing ended
    recompile: str = ""  # what failed before, in the user's names; "" for the first capture
    names: Names = Names()  # the user's names
    backend: str = ""  # its name
    compiler: Callable[[], Any] = lambda: None  # gives the backend itself, while it lives
    sessions: list[Any] = field(default_factory=list)  # its rehearsals, while it is being made: for who looks on
    called: tuple[types.FunctionType, tuple[Any, ...]] | None = None  # with which values, while it is being made
    examples: Any = ()  # the real inputs while the backend runs, for a repro should it fail
    given: tuple[Any, ...] = ()  # what a graph with symbolic numbers was given in its first call
    relations: Any = None  # between symbolic numbers (symbolic.Relations); None without
    refusal: Miss | None = None  # why the last call for which all guards held was not for this entry
    explain: GuardProgram | None = None  # the guard program; holds user objects weakly
    runs_as_recorded: bool = False  # its graph is run as it was recorded, and right wherever its inputs lie in memory
    loop_graph: Any = None  # what was compiled of a part of a loop, for others of the same part
    interim: Any = None  # its graph runs uncompiled until the backend is done elsewhere (background.Interim)
    is_left: bool = False  # the call ran eagerly, with all it called, for what it does no more from then on
    record: Any = None  # it as data (cache/capture_record.py), where that was asked for
    places: Any = ()  # of a recorded or loaded capture: the origins of its entry's inputs and externals
    changed: tuple[str, ...] = ()  # places of objects that the entry changes, beside its graph
    codes: Any = ()  # of a recorded capture: what was rehearsed
    in_handler: bool = False  # of a loaded capture: an operation of its graph is inside a `try` or `with`
    ranges: Any = None  # begins the parts of a run for a profiler (ranges.Parts)

    @property
    def code(self) -> types.CodeType | None:
        """The code that was captured, while it lives."""
        return self.code_ref() if self.code_ref is not None else None

    @property
    def shown_name(self) -> str:
        """The function as the user knows it: what was written, not torch's call of a module."""
        return self.names.title or self.name

    @property
    def torchs_own(self) -> bool:
        """A function of torch's that is captured on its own: that it is for each kind of module is nothing to fix."""
        return is_torchs_own(self.root, self.file)

    @property
    def guards(self) -> list[str]:
        """The guards as text, in the order of the program."""
        if self.explain is None:
            return []
        rows = ((path(self.explain, node), checks) for node, checks in described(self.explain))
        return [f"{where} {kind} {shown_value(value)}" for where, checks in rows for kind, value in checks]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of the graph: an `Input` per tensor, and plain numbers. Made when it is read."""
        if self.given or self.graph_module is None:
            return self.given
        if self.explain is None:
            return tuple(Input(f"input {number}", tensor_facts(tensor)) for number, tensor in enumerate(self.examples))
        return tuple(Input.guarded(self.explain, node) for node in self.explain.inputs)

    @scope
    def phase(self, name: str) -> Iterator[None]:
        """Time a block, and tell listeners where it fails."""
        start = time.perf_counter()
        try:
            yield
        except Exception as error:
            notify("failed", self, name, error)
            raise
        finally:
            self.phases.append(TimeSpan(name, start, time.perf_counter() - start))

    def row(self) -> dict[str, Any]:
        """Return the row of the process's counts: plain values only."""
        code = self.names.code
        return {
            "name": self.shown_name,
            "file": code.co_filename if code is not None else self.file,
            "line": code.co_firstlineno if code is not None else self.line,
            "graphs": int(self.graph_module is not None),
            "guards": self.guard_count,
            "ops": self.operations,
            "reason": self.reason,
            "cpu_s": self.cpu_seconds,
        }


_kept_of = operator.attrgetter(*[one.name for one in fields(Note)])


def is_torchs_own(root: bool, file: str) -> bool:
    """Return whether a captured function is torch's own, and not what was compiled."""
    return not root and brief(file).startswith("torch/")


_numbers = itertools.count()


class Record:
    """All captures of one compiled callable, in order.  Kept by its driver."""

    def __init__(self) -> None:
        self.notes: collections.deque[Note] = collections.deque(maxlen=_MOST_NOTES)
        # how often each cause of breaks was met
        self.causes: collections.Counter[tuple[Any, ...]] = collections.Counter()
        self.refused: dict[tuple[str, str, str, int], Refused] = {}

    def add(self, capture: Capture) -> Note:
        """A capture is finished.  Gives what stays of it here, until the next `reset`."""
        capture.number, capture.has_graph = next(_numbers), capture.graph_module is not None
        note = Note(*_kept_of(capture))
        note.capture, note.phases = weakref.ref(capture), [*capture.phases]
        self.notes.append(note)
        notify("done", capture)
        return note

    def exchange(self, old: Capture, new: Capture) -> Note:
        """A capture whose graph ran uncompiled was made again with the compiled graph: one capture, as before."""
        for note in list(self.notes):
            if note.capture() is old:
                with contextlib.suppress(ValueError):  # another thread may have reset everything
                    self.notes.remove(note)
        new.cpu_seconds += old.cpu_seconds
        new.phases = [*old.phases, *new.phases]
        return self.add(new)

    def share(self, note: Note, by: str) -> None:
        """A capture that another callable made is used here too: it cost nothing."""
        free: dict[str, Any] = {"miss": None, "done": "", "cpu_seconds": 0.0, "phases": [], "spent": SpentTime()}
        self.notes.append(replace(note, number=next(_numbers), shared_with=by, **free))
        counts.shared += 1

    def refuse(self, why: str, code: types.CodeType, sentence: str = "", miss: Miss | None = None) -> None:
        """A call is left to eager mode."""
        key = why, code.co_qualname, code.co_filename, code.co_firstlineno
        found = self.refused.get(key)
        if found is None:
            found = self.refused[key] = Refused(*key, sentence)
        found.calls += 1
        found.sentence, found.miss = sentence or found.sentence, miss or found.miss

    def met(self, stop: GraphBreak) -> int:
        """A break: how often its cause was met so far."""
        if len(self.causes) > _MOST_NOTES:
            self.causes.clear()
        self.causes[stop.cause] += 1
        return self.causes[stop.cause]

    def clear(self) -> None:
        self.notes.clear()
        self.causes.clear()
        self.refused.clear()


def weakly(obj: Any) -> Callable[[], Any]:
    """Return a function that returns an object as long as someone else keeps it."""
    if type(obj) is types.MethodType:
        return weakref.WeakMethod(obj)
    try:
        return weakref.ref(obj)
    except TypeError:  # of a class whose objects cannot be referred to
        return lambda: obj


def record_of(compiled: Any) -> Record | None:
    """The record of a compiled callable or module."""
    return getattr(getattr(innermost_compiled(compiled), "miss", None), "record", None)


def innermost_compiled(compiled: Any) -> Any:
    """The native callable inside of what `compile`, `aot_compile` or `load_package` returned; None for anything
    else.
    """
    while compiled is not None and type(compiled) is not _core.Compiled:
        fields = getattr(compiled, "__dict__", {})
        compiled = fields.get("_compiled", fields.get("_native"))
    return compiled


def native_of(compiled: Any) -> Any:
    """The native callable of what `framelift.compile` returned."""
    native = innermost_compiled(compiled)
    if native is None:
        raise WrongType(f"this needs what framelift.compile returned, not a {type(compiled).__qualname__}")
    return native


class _Handled(BaseException):
    """A call was handled otherwise; the program is not to run."""


def handled(
    native: Any, args: tuple[Any, ...], kwargs: dict[str, Any], handle: Callable[[tuple[Any, ...]], Any]
) -> Any:
    """Return what `handle` makes of the locals of a call that is not run; None where nothing may be captured now."""
    found: list[Any] = []

    def miss(_probe: Any, locals_: tuple[Any, ...]) -> bool:
        found.append(handle(locals_))
        raise _Handled

    with contextlib.suppress(_Handled):
        _core.Compiled(native.function, miss, native.bound, None, native.receiver)(*args, **kwargs)
    return found[0] if found else None


@dataclass(slots=True)
class Counts:
    """The process's counts since the last reset."""

    graphs: int = 0
    captures: int = 0
    loaded: int = 0  # captures that came from disk
    not_kept: collections.Counter[str] = field(default_factory=collections.Counter)  # why others were not written
    shared: int = 0  # captures that one more callable uses
    shared_graphs: int = 0  # captures whose graph was compiled for an equal one
    fallbacks: collections.Counter[str] = field(default_factory=collections.Counter)  # compiled without rewrites
    second_tier: list[Any] = field(default_factory=list)  # jobs, and what else became of flat graphs
    guards: int = 0
    breaks: collections.Counter[str] = field(default_factory=collections.Counter)
    frames: list[dict[str, Any]] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]  # all fields anew


counts = Counts()

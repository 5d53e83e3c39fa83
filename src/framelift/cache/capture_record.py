"""A capture as one record of plain data: all that is known when a rehearsal is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import torch

from .._core import hooked, is_a, of_tensor
from ..boundary.facts.identities import IDENTITIES
from ..bytecode.maker import original_of
from ..bytecode.resume import Point
from ..exits.captured_program import CapturedProgram, GraphCompileReason
from ..exits.entry import EntryPlan
from ..exits.leaves import is_nan
from ..graph.metadata.wrappers import is_wrapper
from ..graph.symbols.relations import Preamble
from ..guards.equality import indistinguishable
from ..guards.kinds import Guard
from ..overriding.modes import MODES_AROUND
from ..recording.finished import Finished
from ..substitutes.marks import CONSTANTS
from ..substitutes.python.identity import OWN_ANSWERS
from ..vocabulary.origins import Origin
from ..vocabulary.own_code import is_captured_function, is_own_code
from ..vocabulary.written_forms import NotKept
from .graph_data import Metadata, graph_data, graph_of
from .plain_values import leaf_data, leaf_of
from .record_reader import Reader
from .record_writer import TENSOR_FIELDS, RecordWriter
from .refusals import NotMine
from .source_files import check_sources, source_rows
from .symbol_data import Numbers, preamble_data, preamble_from, symbols_data

if TYPE_CHECKING:
    from ..rehearsal.session import Rehearsal

#: fields of Finished that are plain values
_FINISHED = tuple(
    field.name for field in fields(Finished) if field.name not in ("graph_module", "inputs", "arguments", "left_state")
)
_OWN_ANSWERS = "the program asks for what each process has of its own"


@dataclass(frozen=True, slots=True)
class Guards:
    """The part of a record that says whether it is for a call."""

    guards: list[Guard]
    inputs: list[Origin]
    externals: list[Origin]
    distinct: list[Origin]


@dataclass(frozen=True, slots=True)
class Kept:
    """A capture that was read; `rest` are plain facts of the writer."""

    program: CapturedProgram | None  # None: the frame runs eagerly
    rest: dict[str, Any]
    given: tuple[Any, ...]  # the entry's inputs in this call
    lines: Preamble | None  # that run before the graph
    numbers: Numbers | None  # that are symbolic in the graph


# ---- writing


def record_of(
    session: Rehearsal,
    program: CapturedProgram | None,
    inputs: Sequence[Origin],
    externals: Sequence[Origin],
    rest: dict[str, Any],
    first: Rehearsal,
    lines: Preamble | None,
    metadata: Metadata,
) -> dict[str, Any]:
    """The record of a finished capture; raises `NotKept`.  `first` is the rehearsal that met a graph break, `lines` run
    before the graph, where numbers are symbolic, `metadata` is that of the nodes of bodies.
    """
    plan, finished = (program.plan, program.finished) if program is not None else (None, None)
    world, recorder = session.world, session.recorder
    _check_session(session, program)
    identities = IDENTITIES.found(session)
    writer = RecordWriter(session.function, () if identities is None else identities.pinned)
    rows = [writer.guard(guard) for guard in session.guards]
    distinct = world.all_distinct()
    data = {
        "state": _state(session.moment.state),
        "guards": rows,
        "inputs": [writer.origin(origin) for origin in inputs],
        "externals": [writer.origin(origin) for origin in externals],
        "distinct": [writer.origin(origin) for origin in distinct],
        "plan": None if plan is None else _plan(writer, plan),
        "graph": None if finished is None else graph_data(writer, finished.graph_module, metadata),
        "finished": None if finished is None else {name: leaf_data(getattr(finished, name)) for name in _FINISHED},
        "lines": None if lines is None else preamble_data(writer, lines),
        "symbols": None if finished is None or lines is None else _symbols(writer, session, lines, finished),
        "left_state": _calls(writer, finished.left_state if finished is not None else ()),
        "point": _point(session.end.point),
        "declared": [_declared(writer, *one) for one in CONSTANTS.of(session)],
        "overrides": bool(recorder.overrides or session.moment.modes),
        "reached": _reached(session, inputs),
        "exact": writer.exact() if world.shows_places else [],
    }
    _check_code(session, writer)
    data["sources"] = _sources(writer, first) if first is not session else []
    data["rest"] = {**rest, "stop": _stop(rest["stop"], lambda place: writer.shown(place) or astuple(place))}
    return {"objects": writer.objects, "origins": writer.origins, "places": writer.places(), **data}


def _check_session(session: Rehearsal, program: CapturedProgram | None) -> None:
    """Raise `NotKept` where an entry needs something beside its plan and its graph that is not written."""
    tensors = [*program.finished.inputs, *program.plan.outputs] if program is not None else []
    for there, what in (
        (program is not None and program.seen is not None and program.seen.annotations, "CUDA graphs are annotated"),
        (MODES_AROUND.of(session).leaves, "the program leaves torch function modes behind"),
        (any(is_wrapper(type(one)) for one in tensors), "a tensor holds others"),
    ):
        if there:
            raise NotKept(what)
    if OWN_ANSWERS.of(session):
        raise NotKept(_OWN_ANSWERS, OWN_ANSWERS.of(session)[0])


def _check_code(session: Rehearsal, writer: RecordWriter) -> None:
    """All code that was rehearsed is known by its hash."""
    for twin, *_ in session.times:
        code = original_of(twin)
        if not writer.covers(code) and not is_own_code(code) and not is_captured_function(code):
            raise NotKept("code was rehearsed that no guard names", f"{code.co_qualname} ({code.co_filename})")


def _sources(writer: RecordWriter, first: Rehearsal) -> list[Any]:
    """What the rehearsal that met a graph break ran beyond it."""
    ran = [original_of(twin) for twin, *_ in first.times]
    known = (writer.covers, is_own_code, is_captured_function)
    rows = source_rows([code for code in ran if not any(knows(code) for knows in known)])
    for name, _, code in rows:
        if code is not None:
            writer.know(code, name)
    return [row[:2] for row in rows]


def _state(state: Any) -> dict[str, Any]:
    words: dict[str, Any] = state.as_dict()
    if words["replaced functions of torch"]:
        raise NotKept("functions of torch's are replaced")
    return words


def _plan(writer: RecordWriter, plan: EntryPlan) -> list[Any]:
    constants = {}
    for name, value in plan.constants.items():
        if is_nan(value):
            raise NotKept("a result is a NaN, of which it matters which object it is")
        constants[name] = writer.value(value)
    return [plan.source, constants, len(plan.outputs), plan.acts, [[i, writer.object(cls)] for i, cls in plan.classes]]


def _stop(stop: list[Any], of_place: Callable[[Any], Any]) -> list[Any]:
    """How a capture ended (capture/records/messages.py), its places written or read."""
    *words, places, links = stop
    rows = None if places is None else [of_place(place) for place in places]
    return [*words, rows, [[text, None if place is None else of_place(place)] for text, place in links]]


def _calls(writer: RecordWriter, calls: Any) -> list[Any]:
    """Calls that set torch's global state."""
    return [[writer.named(function), [leaf_data(arg) for arg in args]] for function, args in calls]


def _declared(
    writer: RecordWriter, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
) -> list[Any]:
    """A call whose result the program declares to be constant: in each process it is asked once."""
    given = [leaf_data(arg) for arg in args], [[name, leaf_data(kwargs[name])] for name in kwargs]
    return [writer.named(function), *given, leaf_data(value)]


def _symbols(writer: RecordWriter, session: Rehearsal, lines: Preamble, finished: Finished) -> dict[str, Any]:
    recorder = session.recorder
    return symbols_data(writer, recorder.with_symbols(), lines.tensors, finished, recorder.input_facts())


def _reached(session: Rehearsal, inputs: Sequence[Origin]) -> list[int]:
    """The inputs to whose gradients the graph adds."""
    found = []
    for tensor in session.recorder.gradients.reached:
        record = session.record_of_original(tensor)
        assert record is not None
        origin = record.origin
        if origin not in inputs:
            raise NotKept("the graph adds to the gradient of a tensor that is no input", str(origin))
        found.append(inputs.index(origin))
    return found


def _point(point: Point | None) -> Any:
    return None if point is None else [point.unit, list(point.stack), list(point.bound), point.handled]


# ---- reading


def is_for_other_sizes(record: dict[str, Any], locals_: tuple[Any, ...]) -> bool:
    """Return whether an argument has a size that the record is not for: what differs most often, and is seen at
    once.
    """
    place = TENSOR_FIELDS.index("size")
    for number, kind, data, _ in record["guards"]:
        _, step, key = record["origins"][number]
        if kind == "TENSOR" and step == "arg" and is_a(locals_[key[0]], torch.Tensor):
            sizes, now = leaf_of(data[1][place]), of_tensor(locals_[key[0]], "size")
            if len(sizes) != len(now) or any(one not in (None, size) for one, size in zip(sizes, now)):
                return True
    return False


def guards_of(record: dict[str, Any], reader: Reader, state: Any) -> Guards:
    """The guards of a record, bound to the objects of this call; raises `NotMine`."""
    now = state.as_dict()
    if record["state"] != now:
        changed = [name for name in now if record["state"].get(name) != now[name]]
        raise NotMine(f"torch's state is another one: {', '.join(changed)}")
    check_sources(record["sources"])
    guards = reader.guards(record["guards"], record["places"])
    reader.check_exact(record["exact"])
    inputs, externals, distinct = (
        [reader.origin(one) for one in record[n]] for n in ("inputs", "externals", "distinct")
    )
    return Guards(guards, inputs, externals, distinct)


def check_declared(record: dict[str, Any], reader: Reader, asked: dict[Any, Any]) -> None:
    """Ask the functions whose results the program declares to be constant; raises `NotMine` where one gives another.

    `asked` has the answers of this call: as in a rehearsal, each question is asked once.
    """
    for number, args, kwargs, value in record["declared"]:
        function = reader.object(number)
        key = id(function), repr(args), repr(kwargs)
        if key not in asked:
            asked[key] = function(*map(leaf_of, args), **{name: leaf_of(arg) for name, arg in kwargs})
        if not indistinguishable(asked[key], leaf_of(value)):
            raise NotMine(f"{function} gives {asked[key]!r:.80}")


def _point_of(data: Any) -> Point | None:
    if data is None:
        return None
    unit, stack, bound, handled = data
    if [type(one) for one in data] != [int, list, list, bool]:
        raise NotMine("its graph break is at no place in the code")
    return Point(unit, tuple(stack), tuple(bound), handled)


def rest_of(record: dict[str, Any], reader: Reader) -> Kept:
    """The graph and the entry of a record whose guards hold."""
    point = _point_of(record["point"])
    rest = {**record["rest"], "stop": _stop(record["rest"]["stop"], reader.shown)}
    values = tuple([reader.fetch(one) for one in record["inputs"]])
    lines = None if record["lines"] is None else preamble_from(reader, record["lines"], record["inputs"])
    if record["plan"] is None:
        return Kept(None, rest, values, lines, None)
    numbers = None if record["symbols"] is None or lines is None else Numbers(reader, record["symbols"], lines.tensors)
    source, constants, outputs, acts, classes = record["plan"]
    externals = [reader.origin(one) for one in record["externals"]]
    plan = EntryPlan(
        source,
        {name: reader.value(data) for name, data in constants.items()},
        (None,) * outputs,
        tuple(externals),
        acts,
        classes=tuple([(i, reader.object(number)) for i, number in classes]),
    )
    finished = Finished(
        graph_module=graph_of(reader, record["graph"], numbers),
        inputs=list(values) if numbers is None else numbers.inputs,
        arguments=None if numbers is None else numbers.arguments,
        left_state=tuple([(reader.object(n), tuple(map(leaf_of, args))) for n, args in record["left_state"]]),
        **{name: leaf_of(data) for name, data in record["finished"].items()},
    )
    sentence, *_, places, _ = rest["stop"]
    program = CapturedProgram(
        plan,
        finished,
        point,
        GraphCompileReason.of(point, sentence, tuple(places or ())),
        overrides=record["overrides"],
        leaves_modes=False,
        reached=tuple([values[one] for one in record["reached"]]),
        symbols=None if numbers is None else numbers.symbols,
        input_facts=dict if numbers is None else numbers.input_facts,
        seen=None,
    )
    if len(finished.graph_module.graph.find_nodes(op="placeholder")) != len(program.given):
        raise NotMine("its graph has other inputs")
    if hooked(program.reached):
        raise NotMine("a tensor whose gradient it adds to has hooks")
    return Kept(program, rest, values, lines, numbers)

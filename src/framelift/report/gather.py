"""From the records of compiled callables to a `Report`: events by root cause, places with their source text."""

from __future__ import annotations

import collections
import functools
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .._core import is_a
from ..capture.records.captures import Input, Note, Refused, native_of, record_of
from ..capture.records.spent_time import Spent
from ..capture.records.user_names import names_of
from ..vocabulary.own_code import FRAMELIFT
from ..vocabulary.places import Place, brief, expression, is_library
from .causes import Causes
from .graphs import readable, resume_source
from .guards import constants, guard_tree, relied_on
from .model import SCHEMA_VERSION, Capture, Function, Phase, Refusal, Report, Span, Specialisation, Time, many
from .named_events import Event, maybe, source
from .recompile_fixes import refusal_fix, specialisation_fix

_MOST_TIMES = 100
_PASSED_ON = 0.5  # a library's function that spends less of its time itself only passes a call on


def report(compiled: Any) -> Report:
    """Everything known of a compiled callable or module.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> _ = f(torch.ones(2))
    >>> f.report().graphs
    1
    """
    return report_of_all([compiled], name_of(native_of(compiled)))


def report_of_all(compiled: Iterable[Any], name: str) -> Report:
    """One report over several compiled callables."""
    natives = [native_of(one) for one in compiled]
    hits: collections.Counter[int] = collections.Counter()
    for entry in [entry for one in natives for entry in entries_of(one)]:  # callables may share a capture
        hits[id(entry.info)] += entry.hits
    refused = tuple(
        _refusal(row) for one in natives if (record := record_of(one)) is not None for row in record.refused.values()
    )
    return _Gathering(_events(natives), hits).report(name, sum(one.hits for one in natives), refused)


def _refusal(row: Refused) -> Refusal:
    place = Place(row.file, row.line, row.line, -1, -1, row.name)
    return Refusal(row.name, source(place), row.why, row.sentence, row.calls, refusal_fix(row.why))


def _events(natives: Iterable[Any]) -> list[Event]:
    """Return the events of these callables, in order."""
    found = [Event(note, names) for one in natives for names in (names_of(one),) for note in _notes(one)]
    every = tuple(dict.fromkeys(line for event in found for line in event.lines))
    for event in found:  # its own come first; a value that one capture hands on may be used in another
        event.lines = (*event.lines, *every)
    return sorted(found, key=lambda event: event.note.number)


def name_of(compiled: Any) -> str:
    """Return the name of a compiled callable in reports."""
    native = native_of(compiled)
    return getattr(native.miss, "name", None) or native.function.__qualname__


def entries_of(native: Any) -> list[Any]:
    """All live entries of a compiled callable, those of captured callees included."""
    lists = [native.entries, *(entries for entries in native.frames.values() if is_a(entries, list))]
    return [entry for entries in lists for entry in entries]


def _notes(native: Any) -> Sequence[Note]:
    record = record_of(native)
    return tuple(record.notes) if record is not None else ()


def summary(compiled: Any) -> str:
    """One paragraph: what `print(compiled)` shows."""
    native = native_of(compiled)
    notes = _notes(native)
    name = name_of(compiled)
    if not notes:
        return f"<compiled {name}: not captured yet>"
    causes = Causes(_events([native]))
    graphs = sum(note.has_graph for note in notes)
    operations = sum(note.operations for note in notes)
    misses = sum(one.times for one in causes.recompiles)
    shared = sum(bool(note.shared_with) for note in notes)
    loaded = sum(note.loaded and not note.shared_with for note in notes)
    apart = f"{f', {shared} shared' if shared else ''}{f', {loaded} loaded from disk' if loaded else ''}"
    parts = [
        f"{many(graphs, 'graph')} with {many(operations, 'operation')} from {many(len(notes), 'capture')} "
        f"({sum(note.seconds for note in notes):.2f} s{apart})",
        f"{many(native.hits, 'call')} served",
    ]
    parts.append(many(len(causes.breaks), "break") if causes.breaks else "no breaks")
    parts.append(many(misses, "recompile") if misses else "no recompiles")
    refused = sum(row.calls for row in record.refused.values()) if (record := record_of(native)) is not None else 0
    if refused:
        parts.append(f"{many(refused, 'call')} ran eagerly")
    text = f"<compiled {name}: {', '.join(parts)}>"
    if causes.breaks:
        first = causes.breaks[0]
        where = f" at {first.source.file}:{first.source.line}" if first.source is not None else ""
        text += f"\nfirst break{where}: {first.sentence}"
    return text + "\nall of it: compiled.report()"


class _Gathering:
    """The events of one report, grouped."""

    def __init__(self, events: Sequence[Event], hits: dict[int, int]) -> None:
        self.events = events
        self.notes = [event.note for event in events]
        self.hits = hits
        self.start = min((note.started for note in self.notes if note.phases), default=0.0)
        self.causes = Causes(events)

    def report(self, name: str, calls: int, refusals: tuple[Refusal, ...]) -> Report:
        # of a shared capture there are several notes
        distinct = list({id(note.capture() or note): note for note in self.notes}.values())
        phases: dict[str, float] = collections.defaultdict(float)
        for note in self.notes:
            for phase in note.phases:
                phases[phase.name] += phase.seconds
        return Report(
            SCHEMA_VERSION,
            name,
            versions(),
            calls,
            sum(note.has_graph for note in distinct),
            sum(note.operations for note in distinct),
            sum(note.guard_count for note in distinct),
            len(distinct),
            sum(note.seconds for note in self.notes),
            sum(note.cpu_seconds for note in self.notes),
            dict(phases),
            self._times(),
            self._functions(),
            self.causes.breaks,
            self.causes.recompiles,
            refusals,
            self._specialisations(),
        )

    def _times(self) -> tuple[Time, ...]:
        """Rehearsing time by function, over all captures."""
        sums: dict[tuple[str, str, int], list[float]] = {}
        for note in self.notes:
            path: list[tuple[str, str, int]] = []
            for row in note.spent.rows():
                key = row.name, row.file, row.line
                del path[row.depth :]
                is_outermost = key not in path  # a recursive function's inner calls are part of its total
                path.append(key)
                found = sums.setdefault(key, [0, 0.0, 0.0])
                for i, value in enumerate((row.calls, row.own, row.total * is_outermost)):
                    found[i] += value
        rows = sorted(sums.items(), key=lambda item: -item[1][1])[:_MOST_TIMES]
        return tuple(
            Time(name, source(Place(file, line, line, -1, -1, name)), is_librarys(file), int(calls), own, total)
            for (name, file, line), (calls, own, total) in rows
        )

    def _functions(self) -> tuple[Function, ...]:
        groups: dict[str, list[Event]] = {}
        for event in self.events:
            groups.setdefault(event.function, []).append(event)
        found = []
        for id_, events in groups.items():
            first = events[0]
            captures = tuple(self._capture(f"{id_}#{number}", event) for number, event in enumerate(events))
            found.append(
                Function(
                    id_,
                    first.name,
                    source(first.definition),
                    first.note.root,
                    first.library,
                    sum(max(c.hits, 0) for c in captures),
                    captures,
                )
            )
        return tuple(sorted(found, key=lambda one: one.library))

    def _capture(self, id_: str, event: Event) -> Capture:
        note = event.note
        full = note.capture()
        phases = tuple(Phase(p.name, p.start - self.start, p.seconds) for p in note.phases)
        status = (
            "broken"
            if note.stop is not None
            else "raised"
            if full is not None and full.reason_id == "raises"
            else "captured"
        )
        return Capture(
            id_,
            status,
            self.hits.get(id(full), -1) if full is not None else -1,
            full.backend if full is not None else "",
            note.operations,
            note.guard_count,
            _inputs(full, event) if full is not None else (),
            self.causes.id_of(event),
            self.causes.followed(event),
            resume_source(note.resumed, note.line) if note.resumed is not None else "",
            self.causes.recompile_of(event),
            phases,
            _spans(note.spent.rows()),
            note.seconds,
            note.cpu_seconds,
            readable(full.graph_module) if full is not None else "",
            full.source if full is not None else "",
            guard_tree(full.explain, event.origin) if full is not None else (),
            note.shared_with,
            note.shares_graph,
            note.from_cache,
            note.loaded,
            note.not_kept,
            tuple(note.fallbacks),
            tuple(note.rewrites),
            tuple(dict.fromkeys(note.generated)),
            full is not None and full.interim is not None and not full.interim.job.is_ready(),
        )

    def _specialisations(self) -> tuple[Specialisation, ...]:
        """Constants by the place that made them: seen from several captured functions, they are one."""
        found: dict[tuple[Any, ...], Specialisation] = {}
        for event in sorted(self.events, key=lambda event: event.library):  # the user's own names first
            full = event.note.capture()
            if full is None or full.explain is None:
                continue
            rows = [(*row, row[3]) for row in relied_on(full.relations)]
            rows += [(*row, event.place(row[0], row[3])) for row in constants(full.explain)]
            for path, value, kind, _, place in rows:
                origin, value = event.origin(path), event.text(value)
                if not _is_torchs(path, place) and not (path.startswith(".") and event.note.resumed is not None):
                    id_ = f"{origin}={value}@{event.function}"
                    found.setdefault(
                        (place, origin, value, kind),
                        Specialisation(
                            id_,
                            event.function,
                            origin,
                            value,
                            kind,
                            maybe(place),
                            specialisation_fix(kind, expression(place) if place is not None else ""),
                        ),
                    )
        return tuple(found.values())


def is_librarys(file: str) -> bool:
    """Return whether a file is not the program's: of Python, of an installed package, or framelift's."""
    return is_library(file) or file.startswith(FRAMELIFT)


def _spans(rows: Sequence[Spent]) -> tuple[Span, ...]:
    """The rows; what a library's function only passes on to the next one is shown there."""
    found: list[Span] = []
    depths: list[int] = []  # of the rows above, as they are shown
    for row in rows:
        del depths[row.depth :]
        depth = depths[-1] if depths else 0
        library = is_librarys(row.file)
        is_shown = not library or row.own >= _PASSED_ON * row.total
        depths.append(depth + is_shown)
        if is_shown:
            place = f"{brief(row.file)}:{row.line}"
            found.append(Span(depth, row.name, place, library, row.calls, row.own, row.total))
    return tuple(found)


def _is_torchs(path: str, place: Place | None) -> bool:
    """Reads made by torch's own modules (hooks, training flags, versions) are no choice of the user."""
    return place is None or brief(place.file).startswith("torch/") or "__defaults__" in path or "__kwdefaults__" in path


def _inputs(full: Any, event: Event) -> tuple[str, ...]:
    return tuple(
        str(one).replace(one.origin, event.origin(one.origin), 1) if is_a(one, Input) else f"a number, {one!r} at first"
        for one in full.inputs
    )


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions that a report was made with."""
    from importlib import metadata

    try:
        own = metadata.version("framelift")
    except metadata.PackageNotFoundError:
        own = "in place"
    return {
        "framelift": own,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }

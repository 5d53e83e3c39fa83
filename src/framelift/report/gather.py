"""From the records of compiled callables to a `Report`: events are grouped by root cause, places get their source text."""

from __future__ import annotations

import collections
import functools
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..places import Place, brief, caret, expression, users
from ..reasons import page
from ..run.record import Input, Note, record_of
from .fixes import break_fix, recapture_fix
from .graphs import readable
from .guards import constants, guard_tree, relied_on
from .model import Break, Capture, Function, Link, Phase, Recapture, Report, SCHEMA_VERSION, Source, Specialisation
from .names import Names, names_of

__all__ = ["report", "report_of_all", "summary"]


def report(compiled: Any) -> Report:
    """Everything known of a compiled callable or module.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x: x + 1, backend="eager")
    >>> _ = f(torch.ones(2))
    >>> f.report().graphs
    1
    """
    return report_of_all([compiled], name_of(compiled))


def report_of_all(compiled: Iterable[Any], name: str) -> Report:
    """One report over several compiled callables."""
    natives = [getattr(one, "_compiled", one) for one in compiled]
    events = sorted((_Event(note, names) for one in natives for names in (names_of(one),) for note in _notes(one)),
                    key=lambda event: event.note.number)
    hits = {id(entry.info): entry.hits for one in natives for entry in entries_of(one)}
    return _Gathering(events, hits).report(name, sum(one.hits for one in natives))


class _Event:
    """A note, with its function's id and its values' names as reports show them."""

    def __init__(self, note: Note, names: Names) -> None:
        self.note = note
        self.names = names
        code = names.code if note.root else None
        self.name = names.title if code is not None else note.name
        self.file, self.line = (code.co_filename, code.co_firstlineno) if code is not None else (note.file, note.line)
        self.function = f"{self.name}@{brief(self.file)}:{self.line}"
        # torch's own functions run on many kinds of modules: that they are captured for each is nothing to be fixed
        self.library = not note.root and brief(self.file).startswith("torch/")

    def origin(self, path: str) -> str:
        return self.names.origin(path, self.note.root)

    def place(self, path: str, place: Place | None) -> Place | None:
        return self.names.place(path, place, self.note.root)

    def text(self, text: str) -> str:
        return self.names.text(text, self.note.root)

    @property
    def definition(self) -> Place:
        """The line of the function's `def`."""
        return Place(self.file, self.line, self.line, -1, -1, self.name)

    @property
    def cause(self) -> tuple[Any, ...]:
        """What breaks are grouped by."""
        return _cause(self.note)

    @property
    def change(self) -> tuple[Any, ...]:
        """What recaptures are grouped by."""
        miss = self.note.miss
        assert miss is not None
        return self.function, miss.origin, miss.kind


def name_of(compiled: Any) -> str:
    """What a compiled callable is called in reports."""
    native = getattr(compiled, "_compiled", compiled)
    return getattr(native.miss, "name", None) or native.function.__qualname__


def entries_of(native: Any) -> list[Any]:
    """All live entries of a compiled callable, those of captured callees included."""
    lists = [native.entries, *(entries for entries in native.frames.values() if isinstance(entries, list))]
    return [entry for entries in lists for entry in entries]


def _notes(native: Any) -> Sequence[Note]:
    record = record_of(native)
    return tuple(record.notes) if record is not None else ()


def summary(compiled: Any) -> str:
    """One paragraph: what `print(compiled)` shows."""
    native = getattr(compiled, "_compiled", compiled)
    notes = _notes(native)
    name = name_of(compiled)
    if not notes:
        return f"<compiled {name}: not captured yet>"
    graphs = sum(note.has_graph for note in notes)
    operations = sum(note.operations for note in notes)
    stops = collections.Counter(_cause(note) for note in notes if note.stop is not None)
    misses = sum(note.miss is not None for note in notes)
    parts = [f"{_count(graphs, 'graph')} with {_count(operations, 'operation')} from {_count(len(notes), 'capture')} "
             f"({sum(note.seconds for note in notes):.2f} s)",
             f"{_count(native.hits, 'call')} served"]
    parts.append(_count(len(stops), "break") if stops else "no breaks")
    parts.append(_count(misses, "recapture") if misses else "no recaptures")
    text = f"<compiled {name}: {', '.join(parts)}>"
    if stops:
        first = next(note.stop for note in notes if note.stop is not None)
        place = users(first.places)
        where = f" at {brief(place.file)}:{place.line}" if place is not None else ""
        text += f"\nfirst break{where}: {first.sentence}"
    return text + "\nall of it: compiled.report()"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _cause(note: Note) -> tuple[Any, ...]:
    stop = note.stop
    assert stop is not None
    return stop.reason, stop.places[-1] if stop.places else None, stop.sentence


@functools.lru_cache(maxsize=4096)
def source(place: Place) -> Source:
    """A place with its text."""
    return Source(brief(place.file), place.file, place.line, place.column, place.end_line, place.end_column, place.function,
                        expression(place), caret(place))


def _maybe(place: Place | None) -> Source | None:
    return source(place) if place is not None else None


def _at(place: Place | None) -> str:
    return f"{brief(place.file)}:{place.line}:{place.column}" if place is not None else "?"


class _Gathering:
    """The events of one report, grouped."""

    def __init__(self, events: Sequence[_Event], hits: dict[int, int]) -> None:
        self.events = events
        self.notes = [event.note for event in events]
        self.hits = hits
        self.start = min((note.started for note in self.notes if note.phases), default=0.0)
        self.break_ids: dict[tuple[Any, ...], str] = {}
        self.recapture_ids: dict[tuple[Any, ...], str] = {}

    def report(self, name: str, calls: int) -> Report:
        phases: collections.Counter[str] = collections.Counter()
        for note in self.notes:
            for phase in note.phases:
                phases[phase.name] += phase.seconds
        breaks, recaptures = self._breaks(), self._recaptures()
        functions = self._functions()
        return Report(
            SCHEMA_VERSION, name, versions(), calls,
            sum(note.has_graph for note in self.notes), sum(note.operations for note in self.notes),
            sum(note.guards for note in self.notes), len(self.notes), sum(note.seconds for note in self.notes),
            sum(note.cpu_seconds for note in self.notes), dict(phases), functions, breaks, recaptures, self._specialisations())

    def _breaks(self) -> tuple[Break, ...]:
        groups: dict[tuple[Any, ...], list[_Event]] = {}
        for event in self.events:
            if event.note.stop is not None:
                groups.setdefault(event.cause, []).append(event)
        found = []
        for cause, events in groups.items():
            stop = events[0].note.stop
            assert stop is not None
            place = users(stop.places) or events[0].definition
            inner = stop.places[-1] if stop.places and stop.places[-1] is not place else None
            id_ = self.break_ids[cause] = _unused(f"{stop.reason}@{_at(place)}", self.break_ids.values())
            found.append(Break(
                id_, stop.reason, stop.sentence, _maybe(place), _maybe(inner), tuple(map(source, stop.places)),
                tuple(Link(link.text if link.place else events[0].origin(link.text), _maybe(link.place)) for link in stop.provenance),
                tuple(dict.fromkeys(event.function for event in events)), len(events), sum(event.note.seconds for event in events),
                break_fix(stop.reason, expression(place) if place is not None else ""), page(stop.reason)))
        return tuple(found)

    def _recaptures(self) -> tuple[Recapture, ...]:
        groups: dict[tuple[Any, ...], list[_Event]] = {}
        for event in self.events:
            if event.note.miss is not None and not event.library:
                groups.setdefault(event.change, []).append(event)
        found = []
        for key, events in groups.items():
            misses = [event.note.miss for event in events if event.note.miss is not None]
            first, last = events[0], misses[-1]
            origin = first.origin(last.origin)
            place = last.place if last.kind == "RELATION" else first.place(last.origin, last.place)
            id_ = self.recapture_ids[key] = _unused(f"{origin or last.kind}@{first.function}", self.recapture_ids.values())
            found.append(Recapture(id_, first.function, origin, last.kind, tuple((first.text(miss.old), first.text(miss.new)) for miss in misses),
                                         first.text(last.sentence), _maybe(place), len(events), sum(event.note.seconds for event in events),
                                         recapture_fix(last.kind, origin, first.text(last.old), first.text(last.new))))
        return tuple(found)

    def _functions(self) -> tuple[Function, ...]:
        groups: dict[str, list[_Event]] = {}
        for event in self.events:
            groups.setdefault(event.function, []).append(event)
        found = []
        for id_, events in groups.items():
            first = events[0]
            captures = tuple(self._capture(f"{id_}#{number}", event) for number, event in enumerate(events))
            found.append(Function(id_, first.name, source(first.definition), first.note.root, sum(max(c.hits, 0) for c in captures), captures))
        return tuple(found)

    def _capture(self, id_: str, event: _Event) -> Capture:
        note = event.note
        full = note.capture()
        stop = self.break_ids[event.cause] if note.stop is not None else ""
        recapture = self.recapture_ids.get(event.change, "") if note.miss is not None else ""
        phases = tuple(Phase(p.name, p.start - self.start, p.seconds) for p in note.phases)
        status = "broken" if note.stop is not None else "raised" if full is not None and full.reason_id == "raises" else "captured"
        inputs = full.inputs if full is not None else ()
        return Capture(
            id_, status, self.hits.get(id(full), -1) if full is not None else -1, note.operations, note.guards,
            tuple(str(one).replace(one.origin, event.origin(one.origin), 1) if isinstance(one, Input) else f"a number, {one!r} at first" for one in inputs), stop, recapture, phases, note.seconds,
            note.cpu_seconds, readable(full.graph_module) if full is not None else "", full.source if full is not None else "",
            guard_tree(full.explain) if full is not None else ())

    def _specialisations(self) -> tuple[Specialisation, ...]:
        """Constants by the place that made them: seen from several captured functions, they are one."""
        found: dict[tuple[Any, ...], Specialisation] = {}
        for event in sorted(self.events, key=lambda event: event.library):     # the user's own names first
            full = event.note.capture()
            if full is None:
                continue
            rows = [(*row, row[3]) for row in relied_on(full.relations)]
            rows += [(*row, event.place(row[0], row[3])) for row in constants(full.explain)]
            for path, value, kind, _, place in rows:
                origin, value = event.origin(path), event.text(value)
                if not _is_library(origin, place):
                    id_ = f"{origin}={value}@{event.function}"
                    found.setdefault((place, value, kind), Specialisation(id_, event.function, origin, value, kind, _maybe(place), _how(kind)))
        return tuple(found.values())


def _is_library(origin: str, place: Place | None) -> bool:
    """Reads made by torch's own modules (hooks, training flags, versions) are no choice of the user."""
    return place is None or brief(place.file).startswith("torch/") or "__defaults__" in origin or "__kwdefaults__" in origin


_HOW = {"number": "Another value captures again; a number kept in a tensor does not.",
        "shape": "Another size captures again; a dimension marked dynamic does not.",
        "length": "Another length captures again.", "relation": "A value for which this does not hold captures again."}


def _how(kind: str) -> str:
    return _HOW.get(kind, "Another value captures again.")


def _unused(id_: str, taken: Iterable[str]) -> str:
    """Two causes at one place are numbered in the order they were met."""
    known, number, candidate = set(taken), 1, id_
    while candidate in known:
        number += 1
        candidate = f"{id_}~{number}"
    return candidate


@functools.cache
def versions() -> dict[str, str]:
    """What a report was made with."""
    from importlib import metadata
    try:
        own = metadata.version("framelift")
    except metadata.PackageNotFoundError:
        own = "in place"
    return {"framelift": own, "torch": torch.__version__, "python": platform.python_version(), "platform": platform.platform()}

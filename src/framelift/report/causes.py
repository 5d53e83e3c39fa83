"""Events grouped by root cause: breaks with what they cost, values that changed with what they caused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..capture.records.messages import fix_of
from ..vocabulary.places import Place, calls_a_module, is_library, struck_below, users
from ..vocabulary.reasons import explained_by
from .guards import is_free
from .model import Break, Link, RecompileCause, many, took
from .named_events import Event, at, maybe, source
from .reason_page import example_of
from .recompile_fixes import kind_words, recompile_fix, result_fix, settled_fix

_MOST_CALLERS = 8


class Causes:
    """The breaks and recompiles of one report, and which of them each event belongs to."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.break_ids: dict[tuple[Any, ...], str] = {}
        self.recompile_ids: dict[tuple[Any, ...], str] = {}
        self.after: dict[int, tuple[Any, ...]] = {}  # number of a note that resumes after a break -> that break
        self._follow()
        self.breaks = self._breaks()
        self.recompiles = self._recompiles()

    def _follow(self) -> None:
        """A capture that resumes after an expression follows the break that was last seen below it."""
        last: dict[Place, tuple[Any, ...]] = {}
        for event in self.events:
            note = event.note
            if note.resumed is not None:
                found = next((last[place] for place in note.resumed.after if place in last), None)
                if found is not None:
                    self.after[note.number] = found
            if note.stop is not None:
                last.update(dict.fromkeys(note.stop.places, self.cause(event)))

    def cause(self, event: Event) -> tuple[Any, ...]:
        """The break that ended an event.  What only follows from a break before it is part of that one."""
        return self.after.get(event.note.number, event.cause) if event.follows_from_a_break else event.cause

    def id_of(self, event: Event) -> str:
        """The same by its id."""
        return self.break_ids[self.cause(event)] if event.note.stop is not None else ""

    def recompile_of(self, event: Event) -> str:
        """The recompile that caused an event."""
        return self.recompile_ids.get(event.change, "") if event.note.miss is not None else ""

    def followed(self, event: Event) -> str:
        """The break after which an event resumes."""
        cause = self.after.get(event.note.number)
        return self.break_ids.get(cause, "") if cause is not None else ""

    # ---- breaks ----

    def _breaks(self) -> tuple[Break, ...]:
        groups: dict[tuple[Any, ...], list[Event]] = {}
        for event in self.events:
            if event.note.stop is not None:
                groups.setdefault(self.cause(event), []).append(event)
        return tuple(self._break(cause, events) for cause, events in groups.items())

    def _break(self, cause: tuple[Any, ...], events: list[Event]) -> Break:
        first = events[0]
        stop = first.note.stop
        assert stop is not None
        place = users(stop.places) or first.definition
        id_ = self.break_ids[cause] = unused(f"{stop.reason}@{at(place)}", self.break_ids.values())
        loops = dict.fromkeys(
            event.note.stop.places[0]
            for event in events[1:]
            if event.note.stop is not None
            and event.cause != cause
            and event.note.resumed is not None
            and event.note.stop.places[0] in event.note.resumed.loops
            and not calls_a_module(event.note.stop.places[0])
        )
        extra = [event for event in self.events if not event.note.root and self._made_necessary(event, cause)]
        own = [event for event in events if not event.library]  # not what of torch calls a module
        functions = tuple(dict.fromkeys(event.function for event in own or events))
        graphs, seconds = sum(event.note.has_graph for event in events), sum(event.note.seconds for event in extra)
        return Break(
            id_,
            stop.reason,
            stop.sentence,
            maybe(place),
            maybe(struck_below(stop.places)),
            tuple(map(source, stop.places)),
            tuple(
                Link(link.text if link.place else first.origin(link.text), maybe(link.place))
                for link in stop.provenance
            ),
            functions,
            _callers(events, place),
            tuple(map(source, loops)),
            len(events),
            graphs,
            len(extra),
            seconds,
            _cost(graphs, len(functions), len(extra), seconds),
            fix_of(stop),
            explained_by(stop.reason),
            example_of(stop.reason),
        )

    def _made_necessary(self, event: Event, cause: tuple[Any, ...]) -> bool:
        """Return whether a break made this capture necessary.

        It resumes after the break, or is of a callee that is captured on its own because the break strikes inside it.
        """
        after = self.after.get(event.note.number)
        if after is not None:
            return after == cause
        return event.note.stop is not None and event.cause == cause

    # ---- recompiles ----

    def _recompiles(self) -> tuple[RecompileCause, ...]:
        groups: dict[tuple[Any, ...], list[Event]] = {}
        for event in self.events:
            if event.note.miss is not None and not event.library:
                groups.setdefault(event.change, []).append(event)
        return tuple(self._recompile(key, events) for key, events in groups.items())

    def _recompile(self, key: tuple[Any, ...], events: list[Event]) -> RecompileCause:
        rows = [(event, event.note.miss) for event in events if event.note.miss is not None]
        first, last = events[0], rows[-1][1]
        _, origin, kind = key
        seen = (event.reading(miss.origin, miss.place) for event, miss in rows)
        place = (
            last.place if kind == "RELATION" else next(filter(None, seen), None) or first.place(last.origin, last.place)
        )
        id_ = self.recompile_ids[key] = unused(f"{origin or kind}@{first.function}", self.recompile_ids.values())
        changes = tuple(dict.fromkeys((event.text(miss.old), event.text(miss.new)) for event, miss in rows))
        result = self.followed(first) if any(origin.startswith(text) for text in first.stack.values()) else ""
        full = events[-1].note.capture()
        settled = (
            kind in ("EQ", "TENSOR")
            and full is not None
            and full.explain is not None
            and is_free(full.explain, last.origin)
        )
        fix = (
            result_fix(origin)
            if result
            else settled_fix(kind, origin)
            if settled
            else recompile_fix(kind, origin, *map(rows[-1][0].text, (last.old, last.new)))
        )
        functions = tuple(dict.fromkeys(event.function for event in events))
        return RecompileCause(
            id_,
            first.function,
            functions,
            origin,
            kind,
            kind_words(kind),
            changes,
            rows[-1][0].text(last.sentence),
            maybe(place),
            result,
            settled,
            len(events),
            sum(event.note.seconds for event in events),
            fix,
        )


def _callers(events: Iterable[Event], place: Place) -> tuple[Any, ...]:
    """The distinct expressions that call the function of a break, the nearest above it."""
    found: dict[Place, None] = {}
    for event in events:
        places = event.note.stop.places if event.note.stop is not None else ()
        above = places[: places.index(place)] if place in places else ()
        users_own = [one for one in above if not is_library(one.file)]  # torch's way to call a module says nothing
        found.update(dict.fromkeys(users_own[-1:]))
    return tuple(source(one) for one in list(found)[:_MOST_CALLERS])


def _cost(graphs: int, functions: int, extra: int, seconds: float) -> str:
    """What a break costs, in words."""
    if graphs:
        text = f"splits {many(graphs, 'graph')} in {many(functions, 'function')}"
    else:
        text = f"splits no graph, as no operation comes before it{'' if extra else '; nothing behind it is captured'}"
    return f"{text}; {many(extra, 'further capture')} because of it, {took(seconds)}" if extra else text


def unused(id_: str, taken: Iterable[str]) -> str:
    """Two causes at one place are numbered in the order they were met."""
    known, number, candidate = set(taken), 1, id_
    while candidate in known:
        number += 1
        candidate = f"{id_}~{number}"
    return candidate

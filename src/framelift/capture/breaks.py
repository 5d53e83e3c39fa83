"""Graph breaks: a frame is stopped before the instruction that cannot be captured, and resumed after it.

What the frame holds is handed over as values.  The instruction runs eagerly (`plain_step`), the rest is a function of
its own (`resume_step`), captured like any other.  Both are made from the original code; the native core loops over
them.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import _core
from ..boundary.facts.finalisers import UNSEEN_ENDS, end_acts, end_is_seen
from ..bytecode import layout, make_twin
from ..bytecode.dialects import current
from ..bytecode.flow import Flow
from ..bytecode.layout import Layout
from ..bytecode.resume import (
    Made,
    Point,
    let_go,
    open_exits,
    point_at,
    resume_code,
    stop_at,
    stop_twin,
    stops_after,
    unread,
    untouched,
)
from ..exits import Lines
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from .._core import Compiled
    from ..rehearsal.session import Rehearsal
    from .foreseen import Foreseen

#: how many places are tried before the frame runs eagerly
_MOST_TRIES = 6


#: what the native loop makes a function of: its code, which of the values are its arguments (negative: contents of a
#: cell), how many of them are its own cells, how many free variables the original has, and whether the last value is
#: the exception being handled
Step: TypeAlias = tuple[types.CodeType, tuple[int, ...], int, int, bool]


@dataclass(frozen=True, slots=True, eq=False)
class HandOver:
    """Where an entry hands its frame over."""

    point: Point
    steps: list[Any] = field(default_factory=list)  # the native loop's


@dataclass
class Tried:
    """The attempt before, which `stopping` asks why its place was too late."""

    session: Rehearsal | None = None


@dataclass(frozen=True, slots=True)
class Stopping:
    """A twin that stops, the root's count of probes where it does, and the parameters not looked at before."""

    twin: types.CodeType
    count: int
    unread: frozenset[str]


class _Frames:
    """Everything made from one original code object.  All compiled callables share it."""

    __slots__ = ("__weakref__", "by_code", "code", "flow", "layouts", "made", "thrown", "twins")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.by_code: dict[int, Made] = {}  # id of code made here -> how
        self.flow = Flow(code)
        self.made: dict[tuple[Point, bool], Made] = {}
        self.thrown: dict[Point, Made] = {}
        self.twins: dict[tuple[int, int], types.CodeType] = {}
        self.layouts: dict[int, Layout] = {}  # of the original and of what was made from it

    def layout(self, code: types.CodeType) -> Layout:
        """Where the instructions of one of these code objects are in its twin."""
        found = self.layouts.get(id(code))
        if found is None:
            found = self.layouts[id(code)] = layout(code)
        return found

    def throwing(self, point: Point) -> Made | None:
        """Code that raises at a point; None where no handler of the frame is there."""
        op = self.flow.at[point.unit]
        if op.handler is None and self.flow.left_block(op) is None:
            return None
        found = self.thrown.get(point)
        if found is None:
            found = self.thrown[point] = resume_code(self.flow, point, throws=True)
        return found

    def resumed(self, point: Point, plain: bool) -> Made:
        """Code that resumes at a point; `plain`: only until the next instruction."""
        found = self.made.get((point, plain))
        if found is None:
            stops = stops_after(self.flow, point.unit) if plain else ()
            found = self.made[point, plain] = resume_code(self.flow, point, stops)
            self.by_code[id(found.code)] = found
            _made_of[id(found.code)] = self
        return found


# By the address of a code object that the value keeps alive.  A callable that resumes a frame keeps the value.
_made_of: weakref.WeakValueDictionary[int, _Frames] = weakref.WeakValueDictionary()  # code made for going on
_originals: weakref.WeakValueDictionary[int, _Frames] = weakref.WeakValueDictionary()  # the program's code


class Breaks:
    """Objects that one compiled callable made for its breaks; they die with the callable."""

    def __init__(self) -> None:
        self.frames: dict[int, _Frames] = {}
        #: and which of its arguments it may let go of, and which are `__exit__` of open blocks
        self.ends: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.waits = True  # calls are left to plain Python for what happens once
        self.passed: set[types.CodeType] = set()  # of which one call was left
        self.foreseen: list[Foreseen] = []  # of the frames that are called next, outermost first

    def of(self, code: types.CodeType) -> tuple[_Frames, Made | None]:
        """Return what was made from a code object's original, and if the code was itself made here, how."""
        made_of = _made_of.get(id(code))
        if made_of is not None:
            return self.keep(made_of), made_of.by_code[id(code)]
        found = self.frames.get(id(code))
        if found is None:
            found = _originals.get(id(code))
            if found is None:
                found = _originals[id(code)] = _Frames(code)
            self.keep(found)
        return found, None

    def keep(self, frames: _Frames) -> _Frames:
        """Keep what was made from a code object as long as the callable lives."""
        self.frames[id(frames.code)] = frames
        return frames

    def kept_for(self, code: types.CodeType) -> _Frames | None:
        """Return what was made from a code object's original, if anything."""
        return _made_of.get(id(code)) or self.frames.get(id(code))

    def take_foreseen(self, code: types.CodeType) -> Interrupt | None:
        """Return the interrupt with which the next rehearsal, of this code, will end, if that is known."""
        for number, (each, stop) in enumerate(self.foreseen):
            if each is code:
                del self.foreseen[: number + 1]
                return stop
        self.foreseen.clear()
        return None

    def may_come_back(self, code: types.CodeType, twin_unit: int) -> bool:
        """Return whether a frame of the program's own code may be at a twin's instruction more than once, or cannot be
        stopped there.
        """
        found = self.original(code, twin_unit)
        return found is None or self.of(code)[0].flow.comes_back(found[1])

    @staticmethod
    def stretch_of(code: types.CodeType, point: Point) -> tuple[types.CodeType, Point] | None:
        """The part of a loop that a capture which is handed over at this point is a run of, reached from above or round
        the loop; None where the point is in no loop.
        """
        frames = _made_of.get(id(code)) or _originals.get(id(code))
        return (frames.code, point) if frames is not None and frames.flow.comes_back(point.unit) else None

    def lets_pass(self, code: types.CodeType) -> bool:
        """Return whether a call is left to plain Python for an interrupt that passes: one call of each code is."""
        is_first = self.waits and code not in self.passed
        self.passed.add(code)
        return is_first

    def is_resumed(self, code: types.CodeType) -> bool:
        """Return whether the code resumes a frame after a break."""
        return id(code) in _made_of

    def taken_numbers(self, code: types.CodeType) -> list[str]:
        """The parameter of code that resumes where a number that changes was taken out of a tensor: the stack's top."""
        frames, made = self.of(code) if self.is_resumed(code) else (None, None)
        changes = frames is not None and knowledge_of(frames.code).taken_numbers_change
        return [f".{len(made.point.stack) - 1}"] if changes and made is not None else []

    def begins_at(self, code: types.CodeType) -> int:
        """The unit of its original at which code that resumes begins; -1 for the program's own code."""
        if not self.is_resumed(code):
            return -1
        frames, made = self.of(code)
        return next(point.unit for (point, _), each in frames.made.items() if each is made)

    def runs_eagerly(self, code: types.CodeType, locals_: tuple[Any, ...]) -> bool:
        """Return whether code that resumes may end something of the program's before it ends itself, when the frame is
        the only holder (what a captured part was given lives until the part is over: finalisers and generators would
        act too late); or is inside of a `with` block whose `__exit__` is not Python code (the instructions that leave
        a block call it themselves, and a rehearsal would not see that).
        """
        frames, made = self.of(code)
        places = self.ends.get(id(code))
        if places is None:
            assert made is not None  # it is code that resumes
            places = self.ends[id(code)] = let_go(frames.flow, made), open_exits(frames.flow, made)
        dying, exits = places
        return any(end_acts(locals_[i]) for i in dying) or any(not _is_python_code(locals_[i]) for i in exits)

    def unread(self, code: types.CodeType) -> frozenset[str]:
        """The parameters that the code only keeps until it ends."""
        frames, made = self.of(code) if self.is_resumed(code) else (None, None)
        return untouched(code) if frames is None or made is None else unread(frames.flow, code, made.start, None)

    def original(self, code: types.CodeType, twin_unit: int) -> tuple[int, int] | None:
        """(unit in `code`, unit in its original) of a twin's instruction before which a frame can be stopped."""
        if twin_unit < 0:
            return None
        frames, made = self.of(code)
        unit = frames.layout(code).to_original(2 * twin_unit) // 2
        found = unit if made is None else made.originals.get(unit, -1)
        if found not in frames.flow.at or found not in frames.flow.shapes:
            return None
        whole = frames.flow.whole(found)
        return (whole if made is None else made.units[whole]), whole

    def stopping(self, function: types.FunctionType, stop: Interrupt, tried: Tried) -> Iterator[Stopping]:
        """Where to stop for an interrupt: where it struck, and then at earlier places.

        `tried.session` is the session of the attempt before, which may know why its place was too late.
        """
        code = function.__code__
        if stop.run_eagerly or code.co_flags & _NOT_RESUMABLE:
            return
        frames, made = self.of(code)
        if set(frames.code.co_cellvars) & set(frames.code.co_freevars):  # a comprehension's cell hides a free variable
            return
        start = frames.flow.ops[0].unit if made is None else made.start
        places = [stop.root] if stop.before is None else [stop.before, stop.root]
        seen: set[tuple[tuple[int, int], int]] = set()
        while places and len(seen) < _MOST_TRIES:
            unit, count = places.pop(0)
            found = self.original(code, unit)
            if found is None or (found, count) in seen:
                continue
            seen.add((found, count))
            here, original = found
            twin = frames.twins.get((id(code), here))
            if twin is None:
                wanted = stop_at(frames.flow, code, original)
                twin = frames.twins[id(code), here] = stop_twin(
                    code, frames.layout(code).place(here), _core.PROBES, wanted, _core.stop
                )
            yield Stopping(
                twin,
                max(count - _probed(frames.flow.last(original).name), 0),
                unread(frames.flow, code, start, original),
            )
            session = tried.session
            assert session is not None
            if session.end.raised_at >= 0:
                places.append((_twin_unit(code, twin, frames.layout(code).place(here), session.end.raised_at // 2), 0))
            places += reversed([place for place in session.generators if place[1] < count])
            entered = (entry if made is None else made.units.get(entry) for entry in frames.flow.entries(original))
            places += [(frames.layout(code).place(unit), 0) for unit in entered if unit is not None]


def _is_python_code(callable_: Any) -> bool:
    return type(callable_.__func__ if type(callable_) is types.MethodType else callable_) is types.FunctionType


def _twin_unit(code: types.CodeType, twin: types.CodeType, stop: int, unit: int) -> int:
    """The unit in the plain twin of one in a twin that has a stop put in at the plain twin's unit `stop`."""
    if unit < stop:
        return unit
    return unit - (len(twin.co_code) - len(make_twin(code, _core.PROBES).co_code)) // 2


#: generators and coroutines end by other ways than returning
_NOT_RESUMABLE = 0x20 | 0x80 | 0x200


@functools.cache
def _probed(name: str) -> int:
    """1 for instructions that call a probe in the twin: the interrupted call was counted."""
    return int(name.startswith("CALL") or name in current().table)


def handing_over(point: Point) -> Lines:
    """Around an entry that ends at a break, which returns the frame's values."""
    return Lines(through="stage_handover", names={"stage_handover": functools.partial(_core.handover, HandOver(point))})


# ---- going on: called by the native loop, once for each place and condition of the frame ----


def _step(made: Made, point: Point, code: types.CodeType) -> Step:
    return made.code, made.order, len(code.co_cellvars), len(code.co_freevars), point.handled


def plain_step(compiled: Compiled, function: types.FunctionType, handover: Any, _kept: tuple[bool, ...]) -> Step:
    """Return the step that runs the broken instruction eagerly."""
    frames, _ = compiled.miss.breaks.of(function.__code__)
    point = handover.place.point
    return _step(frames.resumed(point, True), point, frames.code)


def resume_step(compiled: Compiled, function: types.FunctionType, handed: Any, kept: tuple[bool, ...]) -> Step:
    """Return the step that resumes after it, to be captured. `kept`: which of the frame's locals are needed."""
    frames, _ = compiled.miss.breaks.of(function.__code__)
    point = point_at(handed, kept)
    return _step(frames.resumed(point, False), point, frames.code)


def throw_step(
    compiled: Any, resumed: types.FunctionType, arguments: tuple[Any, ...], error: BaseException
) -> tuple[Any, tuple[Any, ...]] | None:
    """The function that raises where `resumed` would have gone on: its capture failed, and the frame's `with` blocks
    and handlers are to see that.
    """
    frames, made = compiled.miss.breaks.of(resumed.__code__)
    thrown = frames.throwing(made.point) if made is not None else None
    if thrown is None:
        return None
    return types.FunctionType(thrown.code, resumed.__globals__, resumed.__name__, None, resumed.__closure__), (
        *arguments,
        error,
    )


_core.connect(
    plain_step=plain_step,
    resume_step=resume_step,
    throw_step=throw_step,
    end_is_seen=end_is_seen,
    types_without_end=tuple(filter(_core.is_plain_class, UNSEEN_ENDS)),  # the native loop does not ask for these
)

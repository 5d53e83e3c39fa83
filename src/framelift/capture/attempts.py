"""Rehearse again because ...: one table of what another rehearsal is made for, and a bound on how many there are.

`REHEARSED` are looked at after a rehearsal, in this order, each once; `COMPILED` where the graph could not be compiled:
the first that applies.  What a row learns stays in `Learned`, so that the next capture begins with it.  One rehearsal
itself is in rehearsing.py.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .. import config
from .._core import is_a
from ..boundary.declared_shapes import Declared
from ..boundary.dynamism import NOTHING, Dynamism
from ..exc import BackendCompilerFailed, InternalError, SkipFrame
from ..graph.fx.targets import OneNode
from ..recording.recorder_parts import Policy, changed
from ..torch_ports.autograd import engine_run_backward
from ..torch_ports.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from ..vocabulary.outside_exceptions import innermost_trace
from ..vocabulary.reasons import Interrupt
from .breaks import Breaks, Tried
from .foreseen import foresee
from .learned_shapes import Learned, dynamism_for, refuses_floats, written_numbers
from .rehearsing import Outcome, break_off
from .zero_one_sizes import is_same_graph

if TYPE_CHECKING:
    from ..rehearsal.session import Rehearsal
    from .compile_entry import Compiled
    from .records.captures import Capture

#: rehearsals of one capture, breaks not counted; what is found then is used as it is
MOST_ATTEMPTS = 64


@dataclass
class Attempts:
    """The rehearsals of one call.  `once(function, locals, policy)` makes one."""

    breaks: Breaks
    once: Callable[..., Any]
    function: types.FunctionType
    locals: tuple[Any, ...]
    seen: Learned
    dynamic: bool | None
    policy: Policy
    declared: Declared | None = None
    count: int = 0
    dynamism: Dynamism | None = None  # given by a row of COMPILED; None: by what was learned

    def __post_init__(self) -> None:
        self.foreseen = self.breaks.take_foreseen(self.function.__code__)  # what ends the rehearsal, if that is known

    @property
    def is_spent(self) -> bool:
        """True if there is to be no other rehearsal."""
        return self.count >= MOST_ATTEMPTS

    def learned(self, **options: bool) -> Dynamism:
        """Return which values are symbolic by what is known now."""
        return dynamism_for(self.seen, self.dynamic, declared=self.declared, **options)

    def rehearse(self, dynamism: Dynamism) -> Outcome:
        """One rehearsal: up to the break that is foreseen, if one is and the frame gets there."""
        self.count += 1
        policy = changed(self.policy, dynamism=dynamism)
        if self.foreseen is not None:
            for place in self.breaks.stopping(self.function, self.foreseen, Tried()):
                found = self.once(self.function, self.locals, policy, stop=place)
                if found.session.end.point is not None and found.plan is not None:
                    return Outcome(found.session, found.plan, self.foreseen)
                break
            self.foreseen = None
        return self.once(self.function, self.locals, policy)

    def found(self) -> Outcome:
        """A rehearsal for which no row of `REHEARSED` has another, and nothing is to be done first."""
        while True:
            if self.dynamism is not None:
                found = self.rehearse(self.dynamism)
            else:
                found = self.rehearse(self.learned(scalars=True))
                for row in REHEARSED:
                    if not self.is_spent and row.applies(self, found):
                        found = row.again(self, found)
            stop = found.stop
            if not is_a(stop, Interrupt) or stop.first is None or self.is_spent:
                return found
            stop.first()


# ---- after a rehearsal ----


class Row(NamedTuple):
    """Another rehearsal `because` of what one has shown.  `again` makes it, and gives the one to be used."""

    because: str
    applies: Callable[[Attempts, Outcome], Any]
    again: Callable[[Attempts, Outcome], Outcome]


def _early_numbers_are_asked(attempts: Attempts, found: Outcome) -> bool:
    symbols = found.session.symbols
    return bool(found.session.dynamism.early) and (
        found.stop is not None or symbols is not None and symbols.asked_anything()
    )


def _with_constants(attempts: Attempts, found: Outcome) -> Outcome:
    return attempts.rehearse(attempts.learned())


def _stopped_by(found: Outcome, reason: str) -> bool:
    return is_a(found.stop, Interrupt) and found.stop.reason.id == reason


def _is_too_large(attempts: Attempts, found: Outcome) -> bool:
    return _stopped_by(found, "too-large") and bool(found.session.dynamism.keyed)


def _read_fully(attempts: Attempts, found: Outcome) -> Outcome:
    for place in found.session.dynamism.keyed:
        attempts.seen.keep_static(place)
        attempts.seen.read_fully.add(place)
    return attempts.rehearse(attempts.learned())


def _written(attempts: Attempts, found: Outcome) -> list[str]:
    """The places of numbers that captured code writes, which were not known to change."""
    if attempts.dynamic is False or not config.automatic_dynamic_shapes or found.session.dynamism is NOTHING:
        return []
    return [place for place in written_numbers(found.session) if attempts.seen.changing.get(place) is None]


def _with_written(attempts: Attempts, found: Outcome) -> Outcome:
    seen, written = attempts.seen, _written(attempts, found)
    for place in written:
        seen.changing[place] = True
    again = attempts.rehearse(attempts.learned())
    if type(again.stop) is type(found.stop):
        return again
    for place in written:
        seen.keep_static(place)
    return found


def _has_lone_sizes(attempts: Attempts, found: Outcome) -> bool:
    return found.stop is None and bool(found.session.dynamism.lone)


def _with_zero_and_one(attempts: Attempts, found: Outcome) -> Outcome:
    try:
        general = attempts.rehearse(attempts.learned(general=True))
    except InternalError:
        if config.strict:
            raise
        return found  # which is right for this size
    same = general.stop is None and is_same_graph(found.session.recorder, general.session.recorder)
    return general if same else found


REHEARSED: tuple[Row, ...] = (
    Row(
        "a number was symbolic before it changed, and is more than an operand",
        _early_numbers_are_asked,
        _with_constants,
    ),
    Row("C code looks into a dictionary that is read key by key", _is_too_large, _read_fully),
    Row(
        "a symbol does not do where a number is needed",
        lambda attempts, found: _stopped_by(found, "symbolic-number"),
        lambda attempts, found: attempts.rehearse(NOTHING),
    ),
    Row("captured code writes a number that it read as a constant", _written, _with_written),
    Row("the graph may be the same for sizes 0 and 1", _has_lone_sizes, _with_zero_and_one),
)


# ---- after a graph that could not be compiled ----


class Failed(NamedTuple):
    """Another rehearsal, `because` of how compiling failed, with what `dynamism` says; None: as the one before."""

    because: str
    applies: Callable[[Rehearsal, BaseException], Any]
    dynamism: Callable[[Attempts, Rehearsal, Any], Dynamism | None]


def _must_be_done_first(session: Rehearsal, error: BaseException) -> bool:
    return is_a(error, Interrupt) and error.first is not None


def _done(attempts: Attempts, session: Rehearsal, error: Interrupt) -> Dynamism | None:
    assert error.first is not None
    error.first()
    return attempts.dynamism


def _has_fewer(session: Rehearsal) -> bool:
    """Return whether there were symbols that another rehearsal can do without; the rows of jagged tensors always have
    some.
    """
    return session.symbols is not None and session.dynamism is not NOTHING


def _has_other_floats(session: Rehearsal, error: BaseException) -> bool:
    return is_a(error, BackendCompilerFailed) and _has_fewer(session) and refuses_floats(session, error)


def _without_floats(attempts: Attempts, session: Rehearsal, error: BackendCompilerFailed) -> Dynamism:
    attempts.seen.keep_floats_static(session, error)
    return attempts.learned()


def _fails_with_symbols(session: Rehearsal, error: BaseException) -> bool:
    if is_a(error, Interrupt) and error.reason.id != "symbolic-number" or is_a(error, SkipFrame):
        return False
    return _has_fewer(session)


def _with_fewer(attempts: Attempts, session: Rehearsal, error: BaseException) -> Dynamism:
    return attempts.learned() if session.dynamism.general else NOTHING


COMPILED: tuple[Failed, ...] = (
    Failed("something is to be done first", _must_be_done_first, _done),
    Failed("the compiler has no use for floats that are inputs", _has_other_floats, _without_floats),
    Failed("the graph cannot be compiled with these symbols", _fails_with_symbols, _with_fewer),
)


def attempt(
    attempts: Attempts,
    info: Capture,
    is_fatal: Callable[[Rehearsal], bool],
    compile_: Callable[[Rehearsal, Any, BaseException | None], Compiled],
) -> Outcome:
    """Rehearse, up to a break where there is one, and compile; again where a table says so.

    `is_fatal`: a break at this moment of the program is an error.
    """
    while True:
        with info.phase("rehearse"):
            session, plan, stop, *_ = attempts.found()
            first = session
            if is_a(stop, Interrupt) and stop.passes and not is_fatal(session):
                stop.is_left = attempts.breaks.lets_pass(attempts.function.__code__)
            if is_a(stop, Interrupt) and not stop.is_left:
                session, plan = _broken(attempts, session, plan, stop, is_fatal)
        if plan is None:
            return Outcome(session, None, stop, first)
        try:
            return Outcome(session, plan, stop, first, compile_(session, plan, stop))
        except (Interrupt, SkipFrame, BackendCompilerFailed) as error:
            row = next((row for row in COMPILED if not attempts.is_spent and row.applies(session, error)), None)
            if row is None:
                return Outcome(session, None, _given_up(session, error), session)
            attempts.dynamism = row.dynamism(attempts, session, error)


def _broken(
    attempts: Attempts, session: Rehearsal, plan: Any, stop: Interrupt, is_fatal: Callable[[Rehearsal], bool]
) -> tuple[Rehearsal, Any]:
    """Plan the capture of an interrupted frame up to a break; no plan: nothing is captured."""
    if not _may_break(stop) or not session.may_break or is_fatal(session):
        return session, None
    if plan is None:
        first, breaks, policy = session, attempts.breaks, changed(attempts.policy, dynamism=session.dynamism)
        broken = break_off(breaks, attempts.once, attempts.function, attempts.locals, stop, policy)
        if broken is not None:
            session, plan = broken.session, broken.plan
            breaks.foreseen = foresee(breaks, stop, first.recorder)
    return session, plan


def _given_up(session: Rehearsal, error: BaseException) -> Interrupt:
    """The interrupt that a failure to compile is; raises what is none."""
    if is_a(error, Interrupt):
        return error
    if is_a(error, SkipFrame):
        return Interrupt("backend-skip", str(error))
    if not is_a(error, BackendCompilerFailed) or not _cannot_compile(session, error):
        raise error
    return Interrupt("backend-cannot", f"{type(error.inner_exception).__name__}: {error.inner_exception}")


#: about the moment of the call, the whole frame or its body: there is no part of the program to run plainly
_WHOLE_FRAME = frozenset(
    (
        "active-mode",
        "active-transform",
        "lazy-module",
        "skip-frame",
        "backend-skip",
        "backend-cannot",
        "symbolic-number",
    )
)


def _may_break(stop: Interrupt) -> bool:
    return stop.reason.id not in _WHOLE_FRAME and stop.error is None and not stop.operator


#: what compilers find out that eager torch has no trouble with: an operation whose results only data decides
_ONLY_DATA_TELLS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    UnsupportedFakeTensorException,
    GuardOnDataDependentSymNode,
)


def _cannot_compile(session: Rehearsal, error: BackendCompilerFailed) -> bool:
    """Return whether the compiler fails on this graph while eager does not; nodes that the program declared are its
    affair.
    """
    cause = error.inner_exception
    if not is_a(cause, _ONLY_DATA_TELLS) and not (type(cause) is RuntimeError and _in_backward(cause)):
        return False
    return not any(type(step.target) is OneNode for step in session.tape)


def _in_backward(error: BaseException) -> bool:
    """Return whether autograd raised this: some compilers ask for a backward that the program may never ask for."""
    innermost = innermost_trace(error)
    return innermost is not None and innermost.tb_frame.f_code is engine_run_backward.__code__

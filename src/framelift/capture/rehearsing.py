"""Running a rehearsal: once, again where the first was in vain, and up to a graph break."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _core, config
from .._core import insist, is_a
from ..boundary.dynamism import NOTHING
from ..calls.frame_views import shows_locals
from ..exc import InternalError
from ..exits import plan_return
from ..graph.analysis.infallible import in_handler
from ..overriding.modes import Moment
from ..python import feature as _kinds  # noqa: F401  (the package fills the tables of kinds)
from ..recording.recorder_parts import Policy, changed
from ..rehearsal.session import Rehearsal
from ..vocabulary.outside_exceptions import innermost_trace
from ..vocabulary.own_code import begins_rehearsal, is_own_code
from ..vocabulary.quiet_capture import no_collections, watching_warnings
from ..vocabulary.reasons import Interrupt
from ..vocabulary.scopes import scope
from .around.failing import place_of
from .breaks import Breaks, Stopping, Tried
from .debuggers import quiet_unraisable, untraced
from .profiling import profiled

if TYPE_CHECKING:
    from .compile_entry import Compiled

_USUAL = Policy()


class Outcome(NamedTuple):
    """How an attempt to capture a frame ended."""

    session: Rehearsal  # whose plan is used
    plan: Any  # of its exit; None: there is none
    stop: BaseException | None  # what ended it; beside a plan: the frame is stopped there
    first: Rehearsal | None = None  # that met `stop`, where an attempt was compiled
    compiled: Compiled | None = None  # None: the frame runs eagerly


def break_off(
    breaks: Breaks, once: Any, function: types.FunctionType, locals_: tuple[Any, ...], stop: Interrupt, policy: Policy
) -> Outcome | None:
    """Rehearse up to where an interrupt struck, or somewhat earlier, with a plan of what the frame holds."""
    tried = Tried()
    for place in breaks.stopping(function, stop, tried):
        found = once(function, locals_, policy, stop=place)
        if found.session.end.point is not None and found.plan is not None:
            return Outcome(found.session, found.plan, stop)
        tried.session = found.session
    return None


#: rehearsals that are worth nothing, for frames were evaluated past the hook, are repeated so often
_MOST_REHEARSALS = 8


@functools.cache
def _registered(einops: types.ModuleType) -> None:
    einops.rearrange(torch.empty(1), "i -> i")


def register_backends() -> None:
    """Let einops note that there is torch, as torch does: it would do so in the first call, and guards would fail."""
    einops = sys.modules.get("einops")
    if hasattr(einops, "rearrange"):
        _registered(einops)


def rehearsed(
    function: types.FunctionType,
    locals_: tuple[Any, ...],
    policy: Policy = _USUAL,
    moment: Moment | None = None,
    made: list[Rehearsal] | None = None,
    stop: Stopping | None = None,
    begin: Callable[..., Rehearsal] = Rehearsal,
) -> Outcome:
    """One rehearsal: with the plan of its exit, or with what ended it.

    `stop` is where it ends, unless that is the end of the frame; `made` collects sessions to be closed; `begin`
    makes the session.  An external exception is raised.
    """
    register_backends()
    if stop is not None:
        policy = changed(policy, unread=stop.unread)
    for _ in range(_MOST_REHEARSALS):
        session = begin(function, plan_return, policy, moment)
        if made is not None:
            made.append(session)
        plan, ended = rehearse(session, function, locals_, stop)
        if type(ended) is not _core.HookLost:
            return Outcome(session, plan, ended)
    return Outcome(session, None, Interrupt("active-mode", "another evaluator of Python frames (PEP 523)"))


@begins_rehearsal
def rehearse(
    session: Rehearsal, function: types.FunctionType, locals_: tuple[Any, ...], stop: Stopping | None
) -> tuple[Any, BaseException | None]:
    """(plan of the exit, None), or (None, what ended the rehearsal).  The frames of captured code end at this one."""
    try:
        with (
            no_collections(),
            untraced(),
            quiet_unraisable(),
            watching_warnings(),
            profiled(function.__qualname__),
            session.recorder.recording(),
        ):
            _core.rehearse(session, function, locals_, *((stop.twin, stop.count) if stop is not None else ()))
        return session.end.plan, None
    except (Interrupt, _core.HookLost) as interrupt:
        if is_a(interrupt, Interrupt) and shows_locals(session):
            interrupt.run_eagerly = True
        error = _of_operation(interrupt) if session.policy.fullgraph and not session.policy.exporting else None
        if error is not None:
            session.end.left_at = place_of(error)
        return None, _bare(interrupt if error is None else error)
    except InternalError:
        raise
    except Exception as error:
        # it struck the program, or the end of the rehearsal
        if session.outside is not None or error is not session.ended:
            raise
        session.end.left_at = place_of(error)
        return None, _bare(error)
    finally:
        session.ended = None
        for leave in reversed(session.world.ends.leaving):
            insist(leave)


def _of_operation(stop: BaseException) -> BaseException | None:
    """An error of a torch operation that leaves the program: plain Python raises it, with its own class.

    Not a RuntimeError, for which torch.compile has a class, nor one that might be about torch's implementation for
    tensors without data.
    """
    if not is_a(stop, Interrupt) or stop.reason.id != "torch-operation-failed" or stop.operator:
        return None
    error = stop.__cause__
    is_programs = is_a(error, (IndexError, ValueError)) or is_a(error, TypeError) and _raised_in_c(error)
    return error if is_programs and not in_handler([stop.places]) else None


def _raised_in_c(error: Any) -> bool:
    """Return whether no code but framelift's called what raised it: torch found the arguments wrong."""
    trace = innermost_trace(error)
    return trace is not None and is_own_code(trace.tb_frame.f_code)


@scope
def closing(sessions: list[Rehearsal]) -> Iterator[None]:
    """A block at whose end sessions let go of the program's objects."""
    try:
        yield
    finally:
        for session in sessions:
            session.close()


def taking_values(function: types.FunctionType, locals_: tuple[Any, ...], policy: Policy, **options: Any) -> Outcome:
    """A rehearsal for who asks for one graph: values that are taken out of tensors are numbers that the graph computes.

    Where Python needs them, what small tensors hold is guarded instead: the answer to its question where that is
    enough, then all that is taken.  So it is from the start where there must be no symbols (NOTHING).
    """
    numbers = functools.partial(config.patch.block, capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    if policy.dynamism is not NOTHING:
        with numbers():
            found = rehearsed(function, locals_, changed(policy, guesses=False), **options)
        if found.stop is None or is_a(found.stop, Interrupt) and found.stop.first is not None:
            return found  # an exception may be about the numbers: it is asked again without them
    found = rehearsed(function, locals_, policy, **options)
    if is_a(found.stop, Interrupt) and found.stop.reason.id in ("tensor-item", "data-dependent-shape"):
        for guards_values in (False, True):
            with numbers():
                again = rehearsed(function, locals_, changed(policy, guards_values=guards_values), **options)
            if not is_a(again.stop, Interrupt):
                return again
    return found


def _bare(error: Any) -> Any:
    """An exception of a rehearsal without its frames, which would keep the program's objects alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)

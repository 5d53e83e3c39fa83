"""Capture on a miss: rehearse, build graph, guards and entry, put the entry in front.  One process-wide lock.

`Driver` is what a compiled callable calls when no entry's guards hold.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import os
import sys
import threading
import time
import types
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from .. import _core, config
from .._core import id, is_a
from ..boundary.declared_shapes import Declared
from ..exc import BackendCompilerFailed, FrameliftError, InternalError
from ..guards.kinds import full_name
from ..guards.misses import Miss, miss_of
from ..guards.native_program import build_program
from ..guards.sentences import explain
from ..overriding.modes import Moment, at_rest
from ..recording.recorder_parts import Policy
from ..rehearsal.break_errors import BLOCKS
from ..rehearsal.session import Rehearsal
from ..torch_ports.autograd import peek_interpreter_stack
from ..torch_ports.fakes import CompileContext
from ..vocabulary.log import topic, warn
from ..vocabulary.outside_exceptions import from_outside, raise_outside, without_own_context, without_own_frames
from ..vocabulary.own_code import FRAMELIFT, own_file
from ..vocabulary.places import shown_stack
from ..vocabulary.plain_types import GIVEN
from ..vocabulary.quiet_capture import no_collections
from ..vocabulary.reasons import Interrupt
from . import background, policy, ranks
from .around.failing import left_words
from .attempts import Attempts, attempt
from .breaks import Breaks
from .compile_entry import Backend, compile_entry, plain_entry
from .frames import closure_of, has_tensor, is_left_out, is_made_by_hand, muted, prepare, resolve_code, skipped
from .kept import Keeper, keeper_for
from .learned_shapes import Learned, expected_of, keep_shapes
from .policy import Answer
from .profiling import counting_instructions
from .records.callbacks import capturing, entry_made
from .records.captures import Capture, Note, Owner, Record, counts, weakly
from .records.compile_ids import compiling, numbered
from .records.counters import note
from .records.defects import is_defect, report_defect
from .records.guard_hooks import Hooks
from .records.messages import break_of, error_of, fix_of
from .records.missed import GONE, cause
from .records.recompiles import what_was_done
from .records.spent_time import SpentTime
from .records.user_names import Names, names_below, names_inside
from .rehearsing import closing, taking_values
from .rehearsing import rehearsed as rehearse
from .resumed import resumed_from
from .sharing import Pool, pool_of

if TYPE_CHECKING:
    from .._core import Compiled, Entry

capture_lock = threading.RLock()


class Driver:
    """Captures frames on behalf of one compiled callable."""

    def __init__(
        self,
        backend: Backend,
        *,
        fullgraph: bool,
        name: str,
        dynamic: bool | None = None,
        hooks: Hooks = Hooks(),
        declared: Declared | None = None,
    ) -> None:
        prepare()
        self.backend = backend
        self.dynamic, self.declared = dynamic, declared
        self.seen: dict[types.CodeType, Learned] = {}
        self.fullgraph = fullgraph
        self.name = name
        self.hooks = hooks
        self.record = Record()
        self.breaks = Breaks()
        self.taken: weakref.WeakSet[Capture] = weakref.WeakSet()  # captures that were made for other callables
        self.full: Owner[Any] | None = None  # the module whose call had no room for another capture last
        self.recorded = False  # captures are kept as data, for packages

    def forget(self) -> None:
        """Forget what was captured and what that has shown."""
        self.seen.clear()
        self.record.clear()

    def forget_code(self, code: types.CodeType) -> None:
        """Forget what captures of one code have shown."""
        self.seen.pop(code, None)

    def _learned(self, code: types.CodeType) -> Learned:
        """Return what this callable knows of a code."""
        return self.seen.setdefault(code, Learned())

    def __call__(self, compiled: Compiled, locals_: tuple[Any, ...]) -> Answer:
        """The root missed: what to do now."""
        try:
            answer = self.capture(compiled.entries, compiled.function, locals_, root=True)
        except BaseException as error:
            _tidy(error)
            if is_a(error, Exception):
                ranks.captured(compiled.function, error)
            raise
        else:
            ranks.captured(compiled.function)
            return answer
        finally:
            _core.let_go(locals_)

    def capture_frame(self, compiled: Compiled, function: types.FunctionType, locals_: tuple[Any, ...]) -> Answer:
        """A callee of a frame that runs plainly missed.  As `__call__`."""
        code = function.__code__
        if is_made_by_hand(code) or peek_interpreter_stack() is not None:
            return False  # a transform that runs plainly is about the moment, not about the frame
        if not (is_resumed := self.breaks.is_resumed(code)):
            if code not in compiled.frames and (muted(code) or skipped(code)):
                compiled.frames[code] = False if muted(code) else None
                return False
        entries = compiled.frames.setdefault(code, [])
        worth = (
            not self.breaks.runs_eagerly(code, locals_) if is_resumed else has_tensor((locals_, closure_of(function)))
        )
        if (
            not worth
            or policy.is_left_with_its_call(self.full, code, locals_)
            or policy.is_below_autograd_or_disabled()
        ):
            return False  # about the values at hand, or about the moment
        return self.capture(entries, function, locals_, root=False)

    def capture(
        self, entries: list[Any], function: types.FunctionType, locals_: tuple[Any, ...], *, root: bool
    ) -> Answer:
        """Rehearse `function` on `locals_` and put an entry in front of `entries`.  As `__call__`."""
        if config.disable or is_left_out(function.__code__):
            return False
        if root and is_made_by_hand(function.__code__):
            self.record.refuse("code", *policy.refused_code(function.__code__, self.fullgraph))
            return False
        with capture_lock:
            if _other_threads_run() and _is_there(entries, locals_):
                return True
            traced = policy.is_for_trace()
            pool = pool_of(self.backend.settings, function, locals_, root) if not traced else None
            if pool is not None and self._take_over(pool, entries, locals_):
                return True
            seen = self.seen.get(function.__code__)
            if seen is not None and seen.left_by_backend:
                return False
            if seen is not None and seen.given_up:
                self.record.refuse("defect", function.__code__)
                return False
            asked = policy.Asked(function, entries, locals_, root, self.seen, pool)
            old = background.ready_entry(entries, locals_)
            if old is not None:
                return self._exchange(asked, old)
            limit = self.hooks.recompile_limit or config.recompile_limit
            miss, full = (
                cause(entries, function, locals_, limit, self.taken, seen.full if seen is not None else None)
                if entries or seen is None or not seen.entered
                else (GONE, False)
            )
            why, asked = miss.sentence if miss is not None else "", replace(asked, why=miss)
            made = self._from_disk(asked) if policy.forbids_recompiles() else None
            if made is None and not policy.may_capture(asked):
                return False
            if made is None and (full or policy.is_at_total_limit(seen, limit)):
                times = max(len(entries), seen.captures if seen is not None else 0)
                names = policy.called(function, locals_)
                policy.at_limit(function, names, times, miss, self.fullgraph and root)
                self.record.refuse("limit", function.__code__, why, miss)
                self._warn_limit(function, names, times, miss)
                self.full = policy.owner_of(locals_) if root else self.full
                return False
            self.full = None if root else self.full
            self.hooks.failed(why, function.__code__)
            modules = len(sys.modules)
            made = made or self._captured(asked)
            failed: list[Miss] = []
            while made is not None and (is_failing := _fails(made[0], locals_, failed)):
                # torch and backends import modules of theirs as they are needed, which register themselves
                if not (_may_be_others(failed) if _other_threads_run() else len(sys.modules) > modules):
                    break
                modules = len(sys.modules)
                made = self._captured(asked)
            if made is None:
                return False
            entry, info = made
            kept = self._count(info)
            if info.is_left:
                self.record.refuse("first", function.__code__, info.reason)
                return None
            if entry is None or is_failing and not _holds(entry, info, locals_, failed):
                return False
            if traced:
                return entry  # made for this trace
            self._learned(function.__code__).entered = True
            # asked last: compilers know more of a size that is 2 at least
            entries.insert(len(entries) if info.general or _is_asked_last(info) else 0, entry)
            self._offer(pool, entry, function.__code__, kept)
            entry_made(function.__code__, info)
            self._learned(function.__code__).full.clear()
            return entry

    def _from_disk(self, asked: policy.Asked) -> tuple[Any, Capture] | None:
        """A capture that was kept, where recompiles are forbidden: it is none."""
        made = self._captured(asked, is_kept=True) if self._keeps() else None
        return made if made is not None and made[0] is not None else None

    def _offer(self, pool: Pool | None, entry: Any, code: types.CodeType, note: Note) -> None:
        """Other callables of the same code may use this entry."""
        if pool is not None:
            pool.offer(entry, note, self.name, self.breaks.kept_for(code))

    def _take_over(self, pool: Pool, entries: list[Any], locals_: tuple[Any, ...]) -> bool:
        """Use what other callables captured of the same code."""
        taken = list(pool.taken(entries, locals_, bool(background.is_wanted(self.backend.background))))
        for offer in taken:
            self.taken.add(offer.entry.info)
            self.record.share(offer.note, offer.by)
            if offer.keeps is not None:
                self.breaks.keep(offer.keeps)
        while taken and (old := background.ready_entry(entries, locals_)) is not None:
            background.take_out(entries, old)  # one of them is what it waited for
        return bool(taken)

    def _exchange(self, asked: policy.Asked, old: Any) -> Entry | bool:
        """Put the compiled entry in the place of an interim one.  It fails as the first call would have."""
        if not policy.may_exchange(asked):
            return False
        code, entries = asked.function.__code__, asked.entries
        place = background.take_out(entries, old)
        self._learned(code).blocks = True  # should it fail
        made = self._captured(replace(asked, why=old.info.miss), old.info.interim.seen)
        if made is None or made[0] is None or not _holds(*made, asked.locals, []):
            return False
        self._learned(code).blocks = False
        entry, info = made
        entry.hits = old.hits
        kept = self.record.exchange(old.info, info)
        entries.insert(min(place, len(entries)), entry)
        self._offer(asked.pool, entry, code, kept)
        entry_made(code, info)
        return entry

    def _captured(
        self, asked: policy.Asked, seen: Learned | None = None, is_kept: bool = False
    ) -> tuple[Any, Capture] | None:
        """An entry and its record; None: the frame runs eagerly.  `seen`: of the interim entry that this one is for.
        `is_kept`: from disk or not at all.
        """
        function, miss = asked.function, asked.why
        start = time.process_time()
        sessions: list[Rehearsal] = []
        traced = policy.is_for_trace()
        compile_id = numbered(function.__code__, self.breaks.begins_at(function.__code__))
        try:
            with (
                no_collections(),
                closing(sessions),
                capturing(str(compile_id)),
                compiling(compile_id),
                policy.options_of_frame(),
                counting_instructions(),
                at_rest(traced) as moment,
            ):
                entry, info = self._make_entry(asked, moment, sessions, seen, is_kept)
                info.spent, info.done = SpentTime(sessions), what_was_done(miss, info)
        except Exception as error:
            raise_outside(error)
            if is_a(error, (BackendCompilerFailed, InternalError)) and policy.suppressed(error, function.__qualname__):
                return None
            if not is_defect(error):
                raise
            report_defect(error, function, fullgraph=self.fullgraph and asked.root)
            self._learned(function.__code__).given_up = True
            self.record.refuse("defect", function.__code__, f"{type(error).__name__}: {error}")
            return None
        finally:
            if config.run_gc_after_compile:
                gc.collect(1)
        info.miss, info.sessions, info.called = miss, [], None
        if miss is not None:
            info.recompile = info.names.sentence(miss, asked.root)
        info.cpu_seconds = time.process_time() - start
        return entry, info

    def _make_entry(
        self, asked: policy.Asked, moment: Moment, sessions: list[Rehearsal], known: Learned | None, is_kept: bool
    ) -> tuple[Any, Capture]:
        function, locals_, root, pool = asked.function, asked.locals, asked.root, asked.pool
        code = function.__code__
        info = Capture(code.co_qualname, code.co_filename, code.co_firstlineno, root, owner=policy.owner_of(locals_))
        info.names = names_below(function, locals_[0] if locals_ else None) if root else names_inside(function)
        info.thread = threading.get_ident()
        info.compile_id, info.code_ref = CompileContext.current_compile_id(), weakly(code)
        info.resumed = resumed_from(self.breaks, code)
        if root:
            self.breaks.foreseen.clear()  # that is about callees
        info.backend, info.compiler = self.backend.name, weakly(self.backend.compiler)
        info.sessions, info.called = sessions, (function, locals_)
        seen = Learned() if moment.traced else known or self.seen.get(code) or self._begun(code, info, pool)
        once = functools.partial(taking_values if self.fullgraph and root else rehearse, moment=moment, made=sessions)
        backend = self._backend_for(code, moment)
        keeper = self._keeper(function, locals_, moment, root) if known is None and not moment.traced else None
        if keeper is not None:
            found = keeper.load(function, moment.state, info, backend)
            if found is not None:
                seen.learn_loaded(found.guards, found.numbers)
                if info.interim is not None:
                    info.interim.seen = seen.copy()
                if info.stop is not None:
                    self._log_break(info)
                return found.entry, info
        if is_kept:
            return None, info
        how, declared = self._policy(code, moment, root), self.declared if root else None
        made = attempt(
            Attempts(self.breaks, once, function, locals_, seen, self.dynamic, how, declared),
            info,
            functools.partial(self._is_fatal, root=root),
            lambda session, plan, stop: compile_entry(session, plan, stop, info, backend, self.hooks.keep_shapes()),
        )
        session, _, stop, first, compiled = made
        assert first is not None
        world = session.world
        info.guard_count, info.general = len(world.guards), world.dynamism.general
        seen.learn(world)
        keep_shapes(code, seen)
        if info.interim is not None:
            info.interim.seen = seen.copy()
        if pool is not None:
            pool.seen = seen
        if is_a(stop, Interrupt) and (stop.is_left or stop.reason.id == "lazy-module"):
            info.is_left, info.reason = stop.is_left, stop.sentence
            return None, info  # the program is not what it will be from the next call on
        if stop is not None:
            self._stopped(stop, info, first, self._is_fatal(first, root))
            if is_a(stop, Interrupt) and stop.reason.id in ("active-mode", "active-transform"):
                return None, info  # about the moment of the call, not about the program: nothing to remember
        if compiled is None:
            raises = None  # expected of nothing that was captured on an assumption, which eager mode may not meet
            if stop is not None and not is_a(stop, Interrupt) and not first.recorder.assumptions.any:
                raises = left_words(stop, first.end.left_at)
            run, inputs, lines = plain_entry(session, info, raises)
            externals: list[Any] = []
            info.replayable = info.replayable or raises is not None
        else:
            run, inputs, captured, lines, *_ = compiled
            externals = [*captured.plan.externals]
        origins = [world.memo[id(t)].origin if is_a(t, GIVEN) else t for t in inputs]
        with info.phase("guards"):
            kept, state = self.hooks.guards(world.guards, world.memo), None if moment.traced else session.moment.state
            program, info.explain = build_program(kept, origins, externals, world.all_distinct(), state)
        if keeper is not None:
            keeper.keep(made, origins, externals, info, lines)
        if self.fullgraph and root and config.error_on_dynamo_callback_in_fullgraph_compiled_code:
            run = policy.alone(run)
        return _core.Entry(program, run, info, replayable=info.replayable), info

    def _policy(self, code: types.CodeType, moment: Moment, root: bool) -> Policy:
        """Return how a code is rehearsed; what is symbolic is decided by what was learned."""
        return Policy(
            fullgraph=self.fullgraph and root,
            unread=self.breaks.unread(code),
            habits=self.backend.habits,
            unrolls=self.backend.unrolls and not (self.fullgraph and root),
            described=self.backend.described,
            takes_fakes=moment.traced,
        )

    def _backend_for(self, code: types.CodeType, moment: Moment) -> Backend:
        """The backend as this capture uses it; what is made for a trace is shared with nobody."""
        if moment.traced:
            return replace(self.backend, submit=None, settings=None)
        return replace(self.backend, submit=None) if self._learned(code).blocks else self.backend

    def _begun(self, code: types.CodeType, info: Capture, pool: Pool | None) -> Learned:
        """Return what is known of a code before its first capture."""
        expected = expected_of(code)
        elsewhere = pool.seen_elsewhere(code, info.owner is not None) if pool is not None else None
        seen = self.seen[code] = expected.copy() if expected is not None else elsewhere or Learned()
        if code.co_flags & inspect.CO_VARKEYWORDS:  # these are handed on whole
            place = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
            seen.read_fully.add(code.co_varnames[place])
        seen.changing.update(dict.fromkeys(self.breaks.taken_numbers(code), True))
        return seen

    def _keeps(self) -> bool:
        """Return whether captures are kept on disk."""
        return bool(self.backend.has_disk_cache if config.cache == "auto" else config.cache)

    def _keeper(
        self, function: types.FunctionType, locals_: tuple[Any, ...], moment: Moment, root: bool
    ) -> Keeper | None:
        """Where captures of this call are kept on disk."""
        if not (self._keeps() or self.recorded) or self.declared is not None or self._learned(function.__code__).blocks:
            return None
        first = locals_[0] if locals_ else None
        owner = full_name(type(first)) if is_a(first, torch.nn.Module) else ""
        asked = self.fullgraph and root, root, self.dynamic, owner
        return keeper_for(function, locals_, moment, self.hooks, self.backend, *asked, recorded=self.recorded)

    def _is_fatal(self, session: Rehearsal, root: bool) -> bool:
        """Return whether a break here is an error: `fullgraph` is a promise, which no block inside takes back."""
        return self.fullgraph and root or BLOCKS.of(session).is_error

    def _stopped(self, stop: BaseException, info: Capture, session: Rehearsal, fatal: bool) -> None:
        """Capturing ended early: by an interrupt, or by an exception that leaves the root.  The frame runs eagerly."""
        if is_a(stop, Interrupt):
            info.stop = break_of(stop, session)
            info.reason, info.reason_id = stop.sentence, stop.reason.id
            info.where = shown_stack(info.stop.places)
            self._log_break(info)
            if info.reason_id == "backend-skip" and info.code is not None:
                self._learned(info.code).left_by_backend = True
            if stop.error is not None:
                raise stop.error
            if stop.operator or fatal:
                raise error_of(stop, info.shown_name, info.stop, names=info.names) from None
        else:
            info.reason, info.reason_id = f"{type(stop).__name__} leaves the frame", "raises"

    def _log_break(self, info: Capture) -> None:
        """A cause is logged in full once; whoever else meets it, callers above all, gets a line."""
        assert info.stop is not None
        level = logging.DEBUG if info.stop.follows_from(info.resumed) else logging.INFO
        times, name = self.record.met(info.stop), info.shown_name
        if times == 1:
            rows = [f"{name}: {info.reason}", info.where, f"  fix: {fix_of(info.stop)}"]
            topic("breaks").log(level, "%s", "\n".join(filter(None, rows)))
        else:
            said = "%s meets a break that was reported before: %s (%d times so far)"
            topic("breaks").log(logging.DEBUG if info.torchs_own else level, said, name, info.reason, times)

    def _count(self, info: Capture) -> Note:
        kept = self.record.add(info)
        note(info)
        counts.loaded += info.loaded
        counts.captures += not info.loaded
        counts.guards += info.guard_count
        counts.graphs += info.graph_module is not None
        counts.frames.append(info.row())
        if info.reason_id and info.reason_id != "raises":
            counts.breaks[info.reason] += 1
        if info.recompile and not info.torchs_own:
            counts.recompiles.append(info.recompile)
        return kept

    def _warn_limit(self, function: types.FunctionType, names: Names, times: int, miss: Miss | None) -> None:
        warned, about = self._learned(function.__code__).warned, policy.cause_of(miss)
        if about not in warned:
            warned.add(about)
            warn(policy.limit_message(function, names, times, miss, "run eagerly."))


def _other_threads_run() -> bool:
    """Return whether another thread may have changed what was read since."""
    return len(sys._current_frames()) > 1


class _Asked(threading.local):
    """The entries that hold for a thread's last miss, which asked them once more."""

    again: tuple[Any, ...] = ()


_asked = _Asked()


def _is_there(entries: list[Any], locals_: tuple[Any, ...]) -> bool:
    """Return whether the entries are to be asked again: another thread may have captured it since this one's miss.

    Once only: guards may hold of an entry that is not for the call all the same.
    """
    over = background.ready_entry(entries, locals_)
    holding = tuple(
        id(entry)
        for entry in entries
        if entry is not over and entry.info.thread != threading.get_ident() and entry.program.check(locals_) is None
    )
    is_there = holding not in ((), _asked.again)
    _asked.again = holding if is_there else ()
    return is_there


#: captures of one call that the same guard refuses alike, before that is nobody else's doing
_ALIKE = 3


def _fails(entry: Entry | None, locals_: tuple[Any, ...], failed: list[Miss]) -> bool:
    """Return whether guards fail for the very call they came from; which, and how, goes to `failed`."""
    failure = entry.program.check(locals_) if entry is not None else None
    if entry is not None and failure is not None:
        failed.append(miss_of(entry.program, failure, locals_))
    return failure is not None


def _may_be_others(failed: list[Miss]) -> bool:
    """Return whether another capture may tell if another thread makes captures of one call fail: then each fails
    otherwise.
    """
    return len(failed) < _ALIKE and all(miss == failed[0] for miss in failed)


def _holds(entry: Entry, info: Capture, locals_: tuple[Any, ...], failed: list[Miss]) -> bool:
    """Guards must hold for the very call they came from; where they do not, the entry is not used.  `failed`: of the
    captures before this one, and of this one.
    """
    failure = entry.program.check(locals_)
    if failure is None:
        return True
    if _other_threads_run() and not (len(failed) == _ALIKE and all(miss == failed[0] for miss in failed)):
        topic("guards").info(
            "%s runs eagerly, another thread changes what it reads: %s",
            info.name,
            explain(entry.program, failure, locals_),
        )
        return False
    text = (
        f"{info.name} was captured, but its guards do not hold for the very call they came from: "
        f"{explain(entry.program, failure, locals_)}"
    )
    if config.strict:
        raise InternalError(text)
    warn(f"{text}; it runs eagerly. Please report this.")
    return False


def _is_asked_last(info: Capture) -> bool:
    """Return whether captures for fixed sizes go before this one, where both hold."""
    return bool(config.automatic_dynamic_exclusion_guard and info.relations is not None)


_core.connect(
    own_files=FRAMELIFT,
    files_that_rehearse=own_file("capture", ""),
    module_wrapper_file=own_file("capture", "module_wrapper.py"),
)


def _capture_frame(compiled: Compiled, function: types.FunctionType, locals_: tuple[Any, ...]) -> Answer:
    driver = compiled.miss
    try:
        return is_a(driver, Driver) and driver.capture_frame(compiled, function, locals_)
    except BaseException as error:
        _tidy(error)
        raise
    finally:
        _core.let_go(locals_)


def _keeps_frames() -> bool:
    """Return whether tracebacks of errors are to show framelift's own frames."""
    return bool(config.verbose or config.verbose_errors or config.strict)


def _tidy(error: BaseException) -> None:
    """Remove framelift's frames from an exception that leaves a capture and is external."""
    if not is_a(error, Exception) or from_outside(error):
        without_own_context(error)
    elif is_a(error, FrameliftError) and not is_a(error, InternalError) and not _keeps_frames():
        without_own_frames(error)


def _after_fork() -> None:
    """In a forked child there is one thread: what others were in the middle of is not going on."""
    if not capture_lock._is_owned():  # type: ignore[attr-defined]  # private in typeshed
        capture_lock._at_fork_reinit()  # type: ignore[attr-defined]  # private in typeshed
    _core.after_fork()


os.register_at_fork(after_in_child=_after_fork)
_core.connect(interrupt_type=Interrupt, resolve_code=resolve_code, capture_frame=_capture_frame)
config.WATCHERS["disable"] = _core.disable_all
_core.disable_all(config.disable)

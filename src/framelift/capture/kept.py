"""Captures on disk, seen from the driver: one that fits a call is loaded instead of a rehearsal, a new one is written.

What a record is, and what cannot be one, is in cache/.
"""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _core, config
from .._core import is_a
from ..bytecode.maker import source_of
from ..cache import artifacts, store
from ..cache.capture_record import Guards, check_declared, guards_of, is_for_other_sizes, record_of, rest_of
from ..cache.keys import key_of
from ..cache.record_reader import Reader
from ..cache.refusals import NotMine
from ..exc import BackendCompilerFailed, PackageError, SkipFrame
from ..graph.analysis.infallible import in_handler
from ..guards.native_program import build_program
from ..guards.sentences import explain
from ..overriding.modes import modes_back
from ..torch_ports.loaded import inductor_config
from ..torch_ports.modes import enable_torch_function
from ..vocabulary.log import topic
from ..vocabulary.outside_exceptions import raise_outside
from ..vocabulary.own_code import is_own_code
from ..vocabulary.quiet_capture import no_collections
from ..vocabulary.reasons import Interrupt
from ..vocabulary.written_forms import NotKept
from .around.failing import Undo, left_words
from .compile_entry import Backend, compile_kept
from .records.captures import Capture, counts
from .records.counters import counters
from .records.messages import break_data, put_break

if TYPE_CHECKING:
    from ..exits.captured_program import CapturedProgram
    from ..graph.symbols.relations import Preamble
    from ..guards.kinds import Guard
    from ..overriding.modes import Moment
    from ..rehearsal.session import Rehearsal
    from ..vocabulary.origins import Origin
    from .records.guard_hooks import Hooks
    from .rehearsing import Outcome

_said: set[tuple[str, type]] = set()


def _survive(error: Exception, what: str) -> None:
    """The cache on disk failed: the program runs as without it, and that is said once."""
    raise_outside(error)
    if config.strict and not is_a(error, (NotMine, OSError, ValueError, RecursionError, MemoryError)):
        raise error
    if (what, type(error)) not in _said:
        _said.add((what, type(error)))
        topic("cache").warning("%s: %s", what, error if type(error) is NotMine else f"{type(error).__name__}: {error}")


#: reasons why a frame runs eagerly that are about a backend, or about this moment
_OF_THE_MOMENT = frozenset({"backend-skip", "backend-cannot", "active-mode", "active-transform", "lazy-module"})


def keeper_for(
    function: types.FunctionType,
    locals_: tuple[Any, ...],
    moment: Moment,
    hooks: Hooks,
    backend: Backend,
    *asked: Any,
    recorded: bool = False,
) -> Keeper | None:
    """Where the captures of this call are kept; None: nowhere.  `asked`: what else `compile` was asked for;
    `recorded`: for a package, and not on disk.
    """
    if moment.transforms or moment.subclasses_off:
        return None
    if recorded:
        return None if moment.modes else Keeper("", locals_, _core.walked_unordered_sets(), recorded=True)
    if backend.described:  # it may read what graphs from disk do not say
        return None
    if hooks.guard_filter_fn is not None or hooks.guard_export_fn is not None:
        return None
    if torch.compiler.config.force_disable_caches:
        return None
    options = inductor_config.get()
    if options is not None and options.freezing:  # the graph holds tensors
        return None
    try:
        key = key_of(function, backend.name, *asked)
    except Exception as error:  # noqa: BLE001  nothing that the cache does ends a call
        _survive(error, "captures are not kept on disk")
        return None
    return Keeper(key, locals_, _core.walked_sets(), moment.modes)


class Loaded(NamedTuple):
    """An entry that was made of a record, its guards, and the places of the numbers that are symbolic in it."""

    entry: Any
    guards: list[Guard]
    numbers: list[Origin]


class Bound(NamedTuple):
    """A record whose guards are bound to the objects of one call, and hold for it."""

    reader: Reader
    guards: Guards
    program: _core.GuardProgram
    shown: Any  # the program that explains failures


class DoesNotHold(NotMine):
    """Guards of a record fail for a call."""

    def __init__(self, sentence: str, failures: list[tuple[int, int]], shown: Any) -> None:
        super().__init__(sentence)
        self.failures, self.shown = failures, shown


def bound_to(
    record: dict[str, Any], function: types.FunctionType, locals_: tuple[Any, ...], state: Any, checked: bool = True
) -> Bound:
    """Bind the guards of a record to a call of `function`; raises `NotMine` where it is for another one."""
    reader = Reader(record["objects"], record["origins"], function, locals_)
    found = guards_of(record, reader, state)
    program, shown = build_program(found.guards, found.inputs, found.externals, found.distinct, state)
    with enable_torch_function():  # as it is where the driver was called
        failure = program.check(locals_) if checked else None
        if failure is not None:
            failures = program.failures(locals_) or [failure]
            raise DoesNotHold(explain(program, failure, locals_), failures, shown)
    return Bound(reader, found, program, shown)


def entry_of(
    record: dict[str, Any],
    function: types.FunctionType,
    locals_: tuple[Any, ...],
    state: Any,
    info: Capture,
    backend: Backend,
    checked: bool = True,
    asked: dict[Any, Any] | None = None,
    modes: Sequence[Any] = (),
) -> Loaded:
    """The entry of a record, for one call of `function`; raises `NotMine`.  `checked`: only where all guards hold;
    `asked`: answers that the program declares to be constant; `modes` of torch functions that are active.
    """
    with info.phase("load"), no_collections(), modes_back(modes):
        bound = bound_to(record, function, locals_, state, checked)
        check_declared(record, bound.reader, {} if asked is None else asked)
        kept = rest_of(record, bound.reader)
    undo = kept.rest["undo"]
    try:
        run = compile_kept(kept, info, backend, None if undo is None else Undo(tuple(undo[0]), *undo[1:]))
    except (Interrupt, SkipFrame, BackendCompilerFailed) as error:
        raise NotMine(f"its graph cannot be compiled: {error}") from None
    info.guard_count, info.loaded, info.explain = len(bound.guards.guards), True, bound.shown
    info.in_handler = kept.rest["in_handler"]
    put_break(info, kept.rest["stop"])
    info.places = bound.guards.inputs, bound.guards.externals
    numbers = kept.lines.places if kept.lines is not None else []
    return Loaded(_core.Entry(bound.program, run, info, replayable=info.replayable), bound.guards.guards, numbers)


class Keeper:
    """The captures on disk for one call of a code, and what was asked for; `walks` of sets before the capture began;
    `modes` of torch functions that are active.
    Where captures are `recorded`, they go to a package, and not to disk.
    """

    def __init__(
        self, key: str, locals_: tuple[Any, ...], walks: int, modes: Sequence[Any] = (), recorded: bool = False
    ) -> None:
        self.key, self.locals, self.walks, self.modes, self.recorded = key, locals_, walks, modes, recorded

    def load(self, function: types.FunctionType, state: Any, info: Capture, backend: Backend) -> Loaded | None:
        """The entry of a kept capture that is for this call."""
        with no_collections():  # of what is read, nothing is garbage
            try:
                return self._load(function, state, info, backend)
            except Exception as error:  # noqa: BLE001  as in `keeper_for`
                _survive(error, "kept captures are not used")
                return None

    def _load(self, function: types.FunctionType, state: Any, info: Capture, backend: Backend) -> Loaded | None:
        asked: dict[Any, Any] = {}
        for path, record in store.records(self.key) if not self.recorded else ():
            try:
                if is_for_other_sizes(record, self.locals):
                    raise NotMine("an argument has another size")
                found = entry_of(record, function, self.locals, state, info, backend, asked=asked, modes=self.modes)
            except NotMine as miss:
                topic("cache").debug("%s is not for this call of %s: %s", path, info.name, miss)
                continue
            except Exception as error:  # noqa: BLE001  a record that was written by another version of this code
                raise_outside(error)
                topic("cache").info("a kept capture is not used: %s: %s: %s", path, type(error).__name__, error)
                counters["dynamo_cache"]["dynamo_cache_error"] += 1
                continue
            store.used(path)
            artifacts.note(path)
            counters["dynamo_cache"]["dynamo_cache_hit"] += 1
            topic("cache").info("%s was loaded from %s", info.name, path)
            return found
        if not self.recorded:
            counters["dynamo_cache"]["dynamo_cache_miss"] += 1
        return None

    def keep(
        self,
        made: Outcome,
        origins: Sequence[Origin],
        externals: Sequence[Origin],
        info: Capture,
        lines: Preamble | None,
    ) -> None:
        """Write a capture that was just made; where that is not possible, say why."""
        session, first, compiled = made.session, made.first or made.session, made.compiled
        undo = compiled.undo if compiled is not None else None
        rest = {
            "undo": None if undo is None else [list(undo.places), undo.copies, undo.draws, undo.counted],
            "in_handler": in_handler(info.stacks),
            "name": info.name,
            "root": info.root,
            "general": info.general,
            "stop": break_data(info),
            "raises": left_words(made.stop, first.end.left_at) if info.reason_id == "raises" and made.stop else None,
        }
        if self.recorded:
            info.places = list(origins), list(externals)
            ran = {source_of(twin) for twin, *_ in (*session.times, *first.times)}
            info.codes = tuple([code for code in ran if not is_own_code(code)])
        with info.phase("keep"), no_collections():
            try:
                # In a package, sets of strings have the order of the process that made it.
                if (_core.walked_unordered_sets if self.recorded else _core.walked_sets)() != self.walks:
                    raise NotKept("the order of a set was looked at, which differs from process to process")
                if info.reason_id in _OF_THE_MOMENT:
                    raise NotKept("what ended the capture may be other elsewhere", info.reason)
                program, bodies = (compiled.program, compiled.bodies) if compiled is not None else (None, {})
                record = record_of(session, program, origins, externals, rest, first, lines, bodies)
                text = store.text_of(record)
                with modes_back(self.modes):
                    _check(json.loads(text), session, program, self.locals)
                if self.recorded:
                    info.record = record
                else:
                    artifacts.note(store.write_text(self.key, record, text))
            except NotKept as refusal:
                self.refuse(info, refusal)
            except Exception as error:  # noqa: BLE001  as in `keeper_for`
                _survive(error, "a capture is not kept on disk")
                self.refuse(info, NotKept("it cannot be written", f"{type(error).__name__}: {error}"))
        if info.not_kept and config.strict_precompile and not self.recorded:
            raise PackageError(f"the capture of {info.name} cannot be kept on disk: {info.not_kept}")

    def refuse(self, info: Capture, refusal: NotKept) -> None:
        """A capture is not kept."""
        info.not_kept = str(refusal)
        counts.not_kept[refusal.what] += 1
        counters["dynamo_cache_bypass"][refusal.what] += 1
        topic("cache").info("%s is not kept: %s", info.name, refusal)


def _check(
    record: dict[str, Any], session: Rehearsal, program: CapturedProgram | None, locals_: tuple[Any, ...]
) -> None:
    """A record that is read back, here and now, leads to the same guards and inputs; raises `NotKept`."""
    reader = Reader(record["objects"], record["origins"], session.function, locals_)
    try:
        guards_of(record, reader, session.moment.state)
        kept = rest_of(record, reader)
    except NotMine as miss:
        raise NotKept("something is not found again by its name", str(miss)) from None
    if program is None or kept.program is None:
        return
    if not all(map(_is_found, kept.program.finished.inputs, program.finished.inputs)):
        raise NotKept("an input is not found again")


def _is_found(found: torch.Tensor, given: torch.Tensor) -> bool:
    """Return whether it is the same tensor; or the same memory, where a tensor is made for each call (of an array)."""
    places = [[one.data_ptr(), one.shape, one.stride(), one.dtype, type(one)] for one in (found, given)]
    return found is given or places[0] == places[1] and given.device.type == "cpu" and not given.requires_grad

"""Calls of loaded captures: records are bound to the objects of a call; nothing is ever rehearsed."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import _core, config
from ..backends.carried_work import settings, unpacked
from ..backends.warm_start import given
from ..cache.code_hash import code_hash
from ..cache.refusals import NotMine
from ..capture import policy
from ..capture.compile_entry import Backend
from ..capture.driver import Driver, capture_lock
from ..capture.frames import muted
from ..capture.kept import DoesNotHold, bound_to, entry_of
from ..capture.records.captures import Capture, handled
from ..capture.records.missed import cause, missed
from ..capture.records.user_names import names_below
from ..capture.resumed import resumed_from
from ..exc import PackageError
from ..overriding.modes import at_rest
from ..torch_ports.modes import enable_torch_function
from ..vocabulary.log import warn
from ..vocabulary.outside_exceptions import raise_outside
from .functions import named

if TYPE_CHECKING:
    from .._core import Compiled, Entry
    from ..capture.policy import Answer
    from ..guards.misses import Miss
    from ..overriding.modes import Moment
    from .captured import Captured

_MOST_WARNINGS = 16


def _is_overridden(moment: Moment) -> bool:
    return bool(moment.modes or moment.transforms or moment.subclasses_off)


class Loader(Driver):
    """The handler of misses of a callable of loaded captures: it binds the captures, and rehearses nothing.

    `refusal(sentence)` is the error for a call that no capture is for; the sentence is about the nearest one.
    """

    def __init__(self, captures: list[Captured], backend: Backend, name: str, refusal: Callable[[str], Exception]):
        super().__init__(backend, fullgraph=True, name=name)
        self.captures, self.refusal = captures, refusal
        self._roots = [one for one in captures if one.is_root]
        self._parts: dict[str, list[Captured]] = {}  # of other frames, by the hash of their code
        for one in captures:
            if not one.is_root:
                self._parts.setdefault(one.code, []).append(one)
        self._warned: set[str] = set()
        self.is_checked = True  # guards are checked where captures are bound
        self._asked: list[Any] = []  # the entries that were asked before

    def capture_frame(self, compiled: Compiled, function: types.FunctionType, locals_: tuple[Any, ...]) -> Answer:
        """A part of a frame after a graph break, or a callee of a frame that runs eagerly."""
        code = function.__code__
        if not self._parts or code_hash(code) not in self._parts:
            compiled.frames[code] = False if muted(code) else None
            return False
        return super().capture_frame(compiled, function, locals_)

    def capture(
        self, entries: list[Any], function: types.FunctionType, locals_: tuple[Any, ...], *, root: bool
    ) -> Entry | bool:
        if config.disable:
            return False
        with capture_lock:
            self._asked = entries
            made = self._captured(policy.Asked(function, entries, locals_, root, self.seen))
            if made is None:
                return False
            entry, info = made
            if entry is None:
                return False
            self._count(info)
            entries.insert(0, entry)
            found: Entry = entry
            return found

    def _make_entry(self, asked: policy.Asked, moment: Moment, *_unused: Any) -> tuple[Any, Capture]:
        function, locals_, root, code = asked.function, asked.locals, asked.root, asked.function.__code__
        owner = policy.owner_of(locals_)
        info = Capture(code.co_qualname, code.co_filename, code.co_firstlineno, root, owner=owner)
        if root:
            self._check_moment(moment)
        elif _is_overridden(moment):
            return None, info
        misses = []
        for captured in self._roots if root else self._parts[code_hash(code)]:
            info = Capture(code.co_qualname, code.co_filename, code.co_firstlineno, root, owner=owner)
            info.backend, info.resumed = self.backend.name, resumed_from(self.breaks, code)
            backend = self._backend(captured)
            try:
                made = entry_of(captured.record, function, locals_, moment.state, info, backend, self.is_checked)
            except NotMine as miss:
                misses.append(miss)
                continue
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise_outside(error)
                raise PackageError(
                    f"a capture of {code.co_qualname} cannot be read: {type(error).__name__}: {error}"
                ) from error
            info.record = captured.record
            return made.entry, info
        sentence = _nearest(misses, self._asked, function, locals_)
        if root:
            raise self.refusal(sentence)
        self._warn(function, sentence if info.resumed is None else info.resumed.said(sentence))
        return None, info

    def _warn(self, function: types.FunctionType, sentence: str) -> None:
        """Warn that the code after a break has no capture: the frame has begun, and the rest of it runs eagerly."""
        if sentence not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(sentence)
            warn(f"no capture of the package is for a part of {function.__qualname__}, which runs eagerly: {sentence}")

    def _check_moment(self, moment: Moment) -> None:
        if _is_overridden(moment):
            raise self.refusal("a mode or a function transform is active, and the captures were made without one")

    def _backend(self, captured: Captured) -> Backend:
        """The backend, which has its work on this graph already."""
        return replace(self.backend, compile_graph=functools.partial(_compiled, self.backend.compile_graph, captured))

    def unchecked(self, compiled: Compiled, locals_: tuple[Any, ...]) -> Entry:
        """The entry of a capture, whether its guards hold for a call or not."""
        with capture_lock:
            self.is_checked = False
            try:
                made: Any = self.capture(compiled.entries, compiled.function, locals_, root=True)
            finally:
                self.is_checked = True
        if type(made) is not _core.Entry:
            raise self.refusal("an option has captures run eagerly")
        return made

    def why_not(self, compiled: Compiled, locals_: tuple[Any, ...]) -> str | None:
        """Why no capture is for a call; None where one is.  Nothing is compiled."""
        if any(entry.program.check(locals_) is None for entry in compiled.entries):
            return None
        misses = []
        with capture_lock, at_rest() as moment:
            self._check_moment(moment)
            for captured in self._roots:
                try:
                    bound_to(captured.record, compiled.function, locals_, moment.state)
                except NotMine as miss:
                    misses.append(miss)
                else:
                    return None
        return _nearest(misses, compiled.entries, compiled.function, locals_)


def _nearest(misses: list[NotMine], entries: list[Any], function: types.FunctionType, locals_: tuple[Any, ...]) -> str:
    """Why the nearest of several captures is not for a call: the one of which the fewest guards fail."""
    held: list[tuple[int, Miss]] = []
    with enable_torch_function():  # as it is where the callable was called
        for miss in misses:
            if type(miss) is DoesNotHold:
                held.append((len(miss.failures), missed(miss.shown, miss.failures, function, locals_)))
        found = cause(entries, function, locals_, sys.maxsize)[0] if entries else None
        if found is not None:
            held.append((min(max(len(entry.program.failures(locals_)), 1) for entry in entries), found))
    if held:
        names = names_below(function, locals_[0] if locals_ else None)
        return names.sentence(min(held, key=lambda one: one[0])[1], True)
    return str(misses[0]) if misses else "there are no captures"


def _compiled(compile_graph: Any, captured: Captured, *args: Any, **kwargs: Any) -> Any:
    work = captured.work
    if work.made_by is not None:
        return named(work.made_by).deserialize_compile_artifacts(work.compiled)
    if captured.placed is None:
        try:
            captured.placed = (unpacked(work) if work.is_machine_code else None,)
        except (ValueError, LookupError, TypeError, OSError) as error:
            raise PackageError(f"what the package's backend compiled cannot be used: {error}") from None
    with settings(), given(captured.placed[0]):
        return compile_graph(*args, **kwargs)


def locals_of(native: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call, bound to the parameters."""
    found: tuple[Any, ...] = handled(native, args, kwargs, lambda locals_: (*locals_,))  # the call lets go of its own
    return found

"""External exceptions, which are not the program's: of signal handlers, and those that another thread asked for.

The interpreter raises them between two instructions of any frame: of the program, of framelift, of a compiler.
They leave a compiled call as themselves, so whoever catches all exceptions asks here first.
(PyThreadState_SetAsyncExc leaves no other trace than the instruction at which it struck.)
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # private: typeshed does not know it
import signal
import sys
import threading
import types
from contextlib import suppress
from opcode import opname
from typing import Any

from .. import _core
from .._core import id
from .own_code import FRAMELIFT
from .plain_types import AROUND
from .torch_code import TORCH, is_class_of, is_python_file

NOT_OUTSIDE, OUTSIDE, MAYBE_OUTSIDE = 0, 1, 2
_SIGNALS = tuple(int(number) for number in signal.valid_signals())
#: by id, what stands for no code of Python's; `signal` has enumerations in place of the first two
_NO_PYTHON = {id(one) for one in (int(signal.SIG_DFL), int(signal.SIG_IGN), None, _signal.default_int_handler)}
_ARGS, _TRACEBACK, _CAUSE, _CONTEXT = (  # without asking code of the program
    vars(BaseException)[name].__get__ for name in ("args", "__traceback__", "__cause__", "__context__")
)
_SET_CONTEXT = vars(BaseException)["__context__"].__set__
#: where framelift's own code is, and torch's; entries and graphs are made by them
_OWN_FOLDERS = (FRAMELIFT, TORCH, "<framelift", "<eval_with_key>")
#: instructions that look for signals, and raise nothing else
_ONLY_LOOK = frozenset({"RESUME", "JUMP_BACKWARD"})
#: what a program throws into a generator is raised by the RESUME behind the yield
_THROWN_AT_RESUME = sys.version_info >= (3, 13)
#: instructions that may raise by themselves, and look for signals when they are done
_ALSO_LOOK = frozenset(name for name in opname if name.startswith(("CALL", "PRECALL", "POP_JUMP_BACKWARD")))
#: what C functions raise without a word
_WITHOUT_WORDS = (StopIteration, StopAsyncIteration, GeneratorExit)


def innermost_trace(error: BaseException) -> types.TracebackType | None:
    """Return the part of a traceback that is about the frame which raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def code_of(handler: Any) -> types.CodeType | None:
    """The code that runs when a handler or hook is called; None where it is not Python's."""
    while True:
        if type(handler) in AROUND:
            handler = AROUND[type(handler)](handler)
        elif type(handler) is _core.Compiled:
            handler = handler.function
        elif type(handler) is types.FunctionType:
            return handler.__code__
        else:
            called = vars(type(handler)).get("__call__") if handler is not None else None
            called = called or next(
                (vars(base)["__call__"] for base in type(handler).__mro__ if "__call__" in vars(base)), None
            )
            return called.__code__ if type(called) is types.FunctionType else None


def _handlers() -> set[types.CodeType]:
    """The code of all signal handlers that are Python functions."""
    found: set[types.CodeType] = set()
    for number in _SIGNALS:
        handler = _signal.getsignal(number)  # without the enumerations that `signal` puts around its numbers
        if handler is not None and type(handler) is not int:
            found.update(filter(None, [code_of(handler)]))
    return found


def _handles_signals(function: Any) -> bool:
    """Return whether a function is a signal handler, and this the thread in which they run."""
    return threading.get_ident() == threading.main_thread().ident and function.__code__ in _handlers()


def _are_signals_handled() -> bool:
    """Return whether a signal may run code other than that which raises KeyboardInterrupt, in this thread."""
    if threading.get_ident() != threading.main_thread().ident:
        return False
    handlers = set(map(id, map(_signal.getsignal, _SIGNALS)))
    return not handlers <= _NO_PYTHON


def from_outside(error: BaseException) -> int:
    """Return whether an exception is external: OUTSIDE, NOT_OUTSIDE, or MAYBE_OUTSIDE if C code may have raised
    it.
    """
    trace = _TRACEBACK(error)
    if trace is None:
        return NOT_OUTSIDE
    codes = _handlers() if threading.get_ident() == threading.main_thread().ident else ()
    # a twin of a handler has its place
    places = {(code.co_filename, code.co_firstlineno, code.co_qualname) for code in codes}
    while True:
        code = trace.tb_frame.f_code
        if places and (code.co_filename, code.co_firstlineno, code.co_qualname) in places:
            return OUTSIDE
        if trace.tb_next is None:
            break
        trace = trace.tb_next
    raw = code.co_code[trace.tb_lasti : trace.tb_lasti + 2] if trace.tb_lasti >= 0 else b""
    at, arg = (opname[raw[0]], raw[1]) if raw else ("", 0)
    if _THROWN_AT_RESUME and at == "RESUME" and arg & 3:
        thrown = isinstance(error, GeneratorExit) or _core.was_thrown(error, code)
        if thrown is None:
            thrown = not isinstance(error, KeyboardInterrupt)
        return NOT_OUTSIDE if thrown else OUTSIDE
    if at in _ONLY_LOOK:
        return OUTSIDE
    if at in _ALSO_LOOK and not _ARGS(error) and not isinstance(error, _WITHOUT_WORDS):
        return MAYBE_OUTSIDE
    return NOT_OUTSIDE


def outside_cause(error: BaseException) -> BaseException | None:
    """Return the external one of an exception and those that led to it: others may have been raised because of it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if from_outside(found):
            return found
        seen.add(id(found))
        found = _CAUSE(found) or _CONTEXT(found)
    return None


def without_own_context(error: BaseException) -> None:
    """An external exception leaves a compiled call without the context of what framelift or torch handled."""
    frames = _frames(error)
    at, seen = error, {id(error)}
    while (context := _CONTEXT(at)) is not None and id(context) not in seen:
        seen.add(id(context))
        if _is_own(context, frames):
            _SET_CONTEXT(at, _CONTEXT(context))
        else:
            at = context


def without_own_frames(error: BaseException) -> None:
    """An error that framelift raises: its traceback, and that of its cause, without framelift's own frames."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        found.__traceback__ = _without_own(found.__traceback__)
        found = found.__cause__


def _without_own(trace: types.TracebackType | None) -> types.TracebackType | None:
    rows = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(FRAMELIFT):
            rows.append(trace)
        trace = trace.tb_next
    made: types.TracebackType | None = None
    for row in reversed(rows):
        made = types.TracebackType(made, row.tb_frame, row.tb_lasti, row.tb_lineno)
    return made


def _frames(error: BaseException) -> list[types.FrameType]:
    """The frames that an exception passed, outermost first."""
    found, trace = [], _TRACEBACK(error)
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found


def release_frames(error: BaseException) -> None:
    """Empty the frames of framelift, torch and Python's library that an external exception has passed.

    One that strikes as a context manager begins keeps it from ending: its generator waits in a frame of contextlib,
    and torch's state would be put back once more when whoever holds the exception lets go of it.
    """
    if from_outside(error):
        for frame in reversed(_frames(error)):
            file = frame.f_code.co_filename
            if file.startswith(_OWN_FOLDERS) or is_python_file(file):
                with suppress(RuntimeError):  # a frame that still runs
                    frame.clear()


def _is_own(error: BaseException, around: list[types.FrameType]) -> bool:
    """Return whether the frame that handled an exception is framelift's or torch's, or of Python's library on their
    behalf.

    That frame is the first of its traceback, and one of those `around`, which the exception after it passed.
    """
    passed = _frames(error)
    if not passed:
        return is_class_of(type(error), "framelift")
    place = next((i for i, frame in enumerate(around) if frame is passed[0]), None)
    for frame in passed[:1] if place is None else around[place::-1]:
        file = frame.f_code.co_filename
        if file.startswith(_OWN_FOLDERS):
            return True
        if not is_python_file(file):
            return False
    return True


def raise_outside(error: BaseException) -> None:
    """Raise an external exception; for those who catch all exceptions."""
    found = outside_cause(error)
    if found is not None:
        raise found


_core.connect(
    handles_signals=_handles_signals,
    are_signals_handled=_are_signals_handled,
    from_outside=from_outside,
    own_folders=_OWN_FOLDERS,
)

"""Access to frames: those of captured code only, and their names alone, through the views that attribute reads use.

Their code, their lines and the rows of tracebacks are those of twins, so nobody is shown them.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import sys
import traceback
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...calls.frame_views import FRAMELIFT, WRITES_LOCALS, caller, frame_locals, module_globals, outside
from ...vocabulary.own_code import is_beginning
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session


def _back(session: Session, frame: types.FrameType) -> Any:
    found = frame.f_back
    while found is not None and found.f_code.co_filename.startswith(FRAMELIFT):
        if is_beginning(found.f_code):
            raise outside()
        found = found.f_back
    return found


def _written_locals(session: Session, frame: types.FrameType) -> Any:
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        stop = Interrupt("unsupported-code", "f_locals of a function's frame, which writes to its variables")
        stop.run_eagerly = True  # behind a break, a frame has no variables that the rest does not use
        raise stop
    return frame_locals(session, frame)


_FRAME: dict[str, Callable[[Session, types.FrameType], Any]] = {
    "f_globals": module_globals,
    "f_locals": _written_locals if WRITES_LOCALS else frame_locals,
    "f_back": _back,
    "clear": lambda session, frame: frame.clear,
    "__class__": lambda session, frame: types.FrameType,
}


def _read_frame(session: Session, frame: types.FrameType, name: str) -> Any:
    read = _FRAME.get(name)
    if read is None:
        raise _look(name, "frame")
    return read(session, frame)


def _read_generator(session: Session, generator: Any, name: str) -> Any:
    found = getattr(generator, name)
    if is_a(found, types.CodeType):
        raise _look(name, "generator")
    return found


def _read_traceback(session: Session, rows: types.TracebackType, name: str) -> Any:
    raise _look(name, "traceback")


def _look(name: str, kind: str) -> Interrupt:
    """What is shown would be a twin's, and after a break that of resumed code: the whole frame runs eagerly."""
    stop = Interrupt("unsupported-code", f"a look at {name} of a {kind}")
    stop.run_eagerly = True
    return stop


@substitute(traceback.clear_frames)
def _clear_frames(session: Session, tb: Any) -> None:
    """What the frames of an exception hold may go."""
    if _core.is_external(tb):
        raise Interrupt("opaque-object", "the traceback of an exception that was raised outside")
    while tb is not None:
        with contextlib.suppress(RuntimeError):  # it still runs
            _core.natively(tb.tb_frame.clear, (), None)
        tb = tb.tb_next


#: C types made inside whose attributes show twins
READERS: dict[type, Callable[[Session, Any, str], Any]] = {
    types.FrameType: _read_frame,
    types.GeneratorType: _read_generator,
    types.CoroutineType: _read_generator,
    types.AsyncGeneratorType: _read_generator,
    types.TracebackType: _read_traceback,
}


@substitute(sys._getframe)
def _getframe(session: Session, depth: Any = 0, /) -> types.FrameType:
    return caller(max(operator.index(depth), 0))


if hasattr(sys, "_getframemodulename"):

    @substitute(sys._getframemodulename)
    def _getframemodulename(session: Session, depth: int = 0) -> Any:
        return module_globals(session, caller(depth))["__name__"]


@substitute(globals)
def _globals(session: Session) -> Any:
    return module_globals(session, caller())


@substitute(locals)
def _locals(session: Session) -> Any:
    return frame_locals(session, caller())

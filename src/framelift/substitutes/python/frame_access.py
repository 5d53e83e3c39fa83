"""Local variables of captured code by name.  Frames, code of generators and rows of tracebacks are those of
twins, so nobody is shown them.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...calls.frame_views import caller, frame_locals
from ...recording.session import Session
from ...vocabulary.reasons import Interrupt


def _refuse(session: Session, owner: Any, name: str) -> Any:
    if name == "__class__":
        return type(owner)
    raise _look(f"{name} of a {type(owner).__name__}")


def _read_generator(session: Session, generator: Any, name: str) -> Any:
    found = getattr(generator, name)
    return _refuse(session, generator, name) if is_a(found, types.CodeType) else found


def _look(what: str) -> Interrupt:
    """What is shown would be a twin's, and after a break that of resumed code: the whole frame runs eagerly."""
    stop = Interrupt("unsupported-code", f"a look at {what}")
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
    types.FrameType: _refuse,
    types.GeneratorType: _read_generator,
    types.CoroutineType: _read_generator,
    types.AsyncGeneratorType: _read_generator,
    types.TracebackType: _refuse,
}


@substitute(sys._getframe, *([sys._getframemodulename] if hasattr(sys, "_getframemodulename") else ()))
def _getframe(session: Session, /, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise _look("the frames of a program")


@substitute(globals)
def _globals(session: Session) -> NoReturn:
    raise _look("the globals of a program")


@substitute(locals)
def _locals(session: Session) -> Any:
    return frame_locals(session, caller())

"""The frames of captured code as captured code may see them: who called, its local variables."""

from __future__ import annotations

import sys
import types
from typing import Any

from .. import _core
from ..boundary.gateway import looked_at
from ..recording.session import Session
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.own_code import FRAMELIFT, is_beginning
from ..vocabulary.reasons import Interrupt


def outside() -> Interrupt:
    """The interrupt for a frame that is no captured code's."""
    return Interrupt("unsupported-code", "a look at the frames outside the compiled function")


#: there where captured code has looked at the root's local variables by name
_SHOWN_LOCALS: FeatureState[list[Any]] = FeatureState(list)


#: since CPython 3.13 a function frame's `f_locals` writes to its variables, and `locals()` is a dictionary of its own
_WRITES_LOCALS = sys.version_info >= (3, 13)


def frame_locals(session: Session, frame: types.FrameType) -> Any:
    """A frame's local variables by name; those of external closures are imported."""
    code = frame.f_code
    if code.co_filename.startswith(FRAMELIFT):
        raise outside()
    if _is_root(frame):
        _SHOWN_LOCALS.of(session)
    found = dict(frame.f_locals) if _WRITES_LOCALS else frame.f_locals
    for name, value in found.items():
        found[name] = looked_at(session.world, value)
    for name in code.co_freevars:
        if name in found:
            cell = _core.frame_cell(frame, name)
            if cell is None:
                raise Interrupt("unsupported-code", "the local variables of a function with a closure")
            if session.is_external_cell(cell):
                found[name] = session.load_cell(cell, name)
    return found


def _is_root(frame: types.FrameType) -> bool:
    """Return whether a frame is the one that is captured."""
    above = frame.f_back
    while above is not None and above.f_code.co_filename.startswith(FRAMELIFT):
        if is_beginning(above.f_code):
            return True
        above = above.f_back
    return False


def shows_locals(session: Session) -> bool:
    """Return whether captured code has looked at the root's local variables by name.

    A frame has one dictionary of them, which later looks bring up to date; the parts of a frame that is stopped and
    resumed would have one each.
    """
    return _SHOWN_LOCALS.found(session) is not None


def caller(depth: int = 0) -> types.FrameType:
    """The captured frame that made the call, or one of its callers; handlers are called from it directly."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(FRAMELIFT):
            if depth == 0:
                return frame
            depth -= 1
        elif is_beginning(frame.f_code):
            break
        frame = frame.f_back
    raise outside()

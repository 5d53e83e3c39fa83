"""Access to frames: those of captured code only, and through the same views that attribute reads use.

A frame of captured code is its twin's: it shows the original's code, and its own locals with what closures hold
imported.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...bytecode import original_of
from ...calls.call_tables import substitute
from ...calls.frame_views import FRAMELIFT, caller, frame_locals, module_globals, outside
from ...vocabulary.own_code import is_beginning
from ...vocabulary.reasons import Interrupt
from .code_objects import as_called

if TYPE_CHECKING:
    from ...rehearsal.session import Session

__all__ = ["READERS"]


def _back(session: Session, frame: types.FrameType) -> Any:
    found = frame.f_back
    while found is not None and found.f_code.co_filename.startswith(FRAMELIFT):
        if is_beginning(found.f_code):
            raise outside()
        found = found.f_back
    return found


def _code(session: Session, frame: types.FrameType) -> types.CodeType:
    return original_of(frame.f_code)


_FRAME: dict[str, Callable[[Session, types.FrameType], Any]] = {
    "f_globals": module_globals,
    "f_locals": frame_locals,
    "f_back": _back,
    "f_code": _code,
    "f_lineno": lambda session, frame: frame.f_lineno,  # twins keep the lines of their originals
    "clear": lambda session, frame: frame.clear,
    "__class__": lambda session, frame: types.FrameType,
}


def _read_frame(session: Session, frame: types.FrameType, name: str) -> Any:
    read = _FRAME.get(name)
    if read is None:
        raise Interrupt("unsupported-code", f"a look at {name} of a frame")
    return read(session, frame)


def _read_generator(session: Session, generator: Any, name: str) -> Any:
    found = getattr(generator, name)
    return original_of(found) if is_a(found, types.CodeType) else found


def _read_traceback(session: Session, traceback: types.TracebackType, name: str) -> Any:
    if _core.is_external(traceback):
        raise Interrupt("opaque-object", f"traceback.{name} of an exception that was raised outside")
    if name == "tb_lasti":  # of the twin
        raise Interrupt("unsupported-code", "a look at tb_lasti of a traceback")
    return getattr(traceback, name)


#: C types made inside whose attributes show twins
READERS: dict[type, Callable[[Session, Any, str], Any]] = {
    types.FrameType: _read_frame,
    types.GeneratorType: _read_generator,
    types.TracebackType: _read_traceback,
}


@substitute(sys._getframe)
def _getframe(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    depth = args[0] if args else 0
    if type(depth) is not int or len(args) > 1 or kwargs:
        return callable_(*args, **kwargs)
    return caller(max(depth, 0))


if hasattr(sys, "_getframemodulename"):

    @substitute(sys._getframemodulename)
    def _getframemodulename(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def bound(depth: int = 0) -> Any:
            return module_globals(session, caller(depth))["__name__"]

        return as_called(bound, callable_, args, kwargs)


@substitute(globals)
def _globals(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return callable_(*args, **kwargs)
    return module_globals(session, caller())


@substitute(locals)
def _locals(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        return callable_(*args, **kwargs)
    return frame_locals(session, caller())

"""Access to frames and tracebacks: those of captured code only, and through the same views that attribute reads use.

A frame of captured code is its twin's: it shows the original's code, and its own locals with what closures hold
imported.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import operator
import os
import sys
import traceback as traceback_module
import types
from collections.abc import Callable
from opcode import opmap
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...boundary.becomes.opaque import opaque_for
from ...bytecode import layout, original_of
from ...calls.call_tables import SUBSTITUTES, substitute
from ...calls.frame_views import FRAMELIFT, WRITES_LOCALS, caller, frame_locals, module_globals, outside
from ...guards.checks import check
from ...vocabulary.origins import const
from ...vocabulary.own_code import is_beginning, is_own_code
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


def _code(session: Session, frame: types.FrameType) -> types.CodeType:
    session.show_places()
    return original_of(frame.f_code)


def _line(session: Session, shown: Any, name: str) -> int:
    """Return the line of a frame or a row of a traceback: twins keep the lines of their originals."""
    session.show_places()
    line: int = getattr(shown, name)
    return line


def _written_locals(session: Session, frame: types.FrameType) -> Any:
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        raise Interrupt("unsupported-code", "f_locals of a function's frame, which writes to its variables")
    return frame_locals(session, frame)


_FRAME: dict[str, Callable[[Session, types.FrameType], Any]] = {
    "f_globals": module_globals,
    "f_locals": _written_locals if WRITES_LOCALS else frame_locals,
    "f_back": _back,
    "f_code": _code,
    "f_lasti": lambda session, frame: _last_instruction(frame.f_code, frame.f_lasti),
    "f_lineno": lambda session, frame: _line(session, frame, "f_lineno"),
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
    if not is_a(found, types.CodeType):
        return found
    session.show_places()
    return original_of(found)


def _read_traceback(session: Session, traceback: types.TracebackType, name: str) -> Any:
    if _core.is_external(traceback):
        raise Interrupt("opaque-object", f"traceback.{name} of an exception that was raised outside")
    if name == "tb_lasti":
        return _last_instruction(traceback.tb_frame.f_code, traceback.tb_lasti)
    if name == "tb_lineno":
        return _line(session, traceback, name)
    if name == "tb_next":
        return _next(traceback)
    return getattr(traceback, name)


#: it clears the frames that it finds, and shows nothing of them: those that a substitute has no part of are gone
_CLEARING = traceback_module.clear_frames.__code__


def _next(traceback: types.TracebackType) -> types.TracebackType | None:
    """The next row of a traceback that plain Python has too: probes and C functions have no frames there."""
    found, begins = traceback.tb_next, True
    while found is not None and is_own_code(found.tb_frame.f_code):
        if begins and _stands_for_python(found.tb_frame) and original_of(caller().f_code) is not _CLEARING:
            raise Interrupt("unsupported-code", "the traceback of an exception that a substitute raised")
        found, begins = found.tb_next, False
    return found


def _stands_for_python(frame: types.FrameType) -> bool:
    """Return whether a frame is that of a handler that runs in place of a function of Python's."""
    code = frame.f_code
    if all(getattr(handler, "__code__", None) is not code for _, handler in SUBSTITUTES.values()):
        return False
    return is_a(frame.f_locals[code.co_varnames[1]], (types.FunctionType, types.MethodType))


_EXTENDED_ARG = opmap["EXTENDED_ARG"]


def _last_instruction(twin: types.CodeType, offset: int) -> int:
    """The offset in the original of the instruction that a frame is at."""
    original = original_of(twin)
    if original is twin or offset < 0:
        return offset
    placed, raw = layout(original), original.co_code
    if len(twin.co_code) != len(raw) + 2 * placed.shifts[-1]:  # one that stops somewhere
        raise Interrupt("unsupported-code", "a look at tb_lasti of a traceback")
    offset = placed.to_original(offset)
    while raw[offset] == _EXTENDED_ARG:
        offset += 2
    return offset


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


# ---- lines of source, which tracebacks show: linecache is a cache around files, each line a fact about its file ----


def _is_read_by_name(filename: Any) -> bool:
    """Return whether a file is read by its name alone: none, or one that lies where its name says."""
    return type(filename) is str and (filename[:1] == "<" and filename[-1:] == ">" or os.path.isfile(filename))


@check
def _gives_line(filename: str, number: int, line: str, getline: Callable[[str, int], str]) -> bool:
    """The file has the same line there."""
    linecache.checkcache(filename)
    return getline(filename, number) == line


@substitute(linecache.getline)
def _getline(session: Session, callable_: Any, filename: Any, lineno: Any, module_globals: Any = None) -> Any:
    if not _is_read_by_name(filename) or type(lineno) is not int:
        raise Interrupt("unknown-callable", "linecache.getline of other than a file")
    linecache.checkcache(filename)
    line = callable_(filename, lineno)
    name = f"({filename!r}, {lineno}) == {line!r}"
    session.guard(
        const(linecache.getline), "CHECK", (functools.partial(_gives_line, filename, lineno, line), name), name
    )
    return line


@substitute(linecache.checkcache)
def _checkcache(session: Session, filename: Any = None) -> None:
    """Each line is looked at anew whenever captured code reads it."""
    if filename is not None and not _is_read_by_name(filename):
        raise Interrupt("unknown-callable", "linecache.checkcache of other than a file")


@substitute(linecache.lazycache)
def _lazycache(session: Session, filename: Any, module_globals: Any) -> Any:
    """For modules without files: their loader is asked for the source when it is read."""
    if not _is_read_by_name(filename):
        raise Interrupt("unknown-callable", "linecache.lazycache of other than a file")
    return opaque_for(False, "unknown-callable", "linecache.lazycache, whose result was used,")

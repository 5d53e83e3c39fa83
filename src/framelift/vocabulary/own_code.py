"""Where framelift's own files are: the one answer to "is this frame ours?"."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: the folder of framelift's files, with the separator behind it
FRAMELIFT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def own_file(*parts: str) -> str:
    """The path of one of framelift's files or folders."""
    return FRAMELIFT + os.path.join(*parts)


def is_own_code(code: types.CodeType) -> bool:
    """Return whether a code object was written in one of framelift's files."""
    return code.co_filename.startswith(FRAMELIFT)


def first_above(is_sought: Callable[[types.FrameType], bool] = lambda _: True) -> types.FrameType | None:
    """Return the innermost frame, of those that called the caller of this function, that is sought."""
    frame: types.FrameType | None = sys._getframe(1).f_back
    while frame is not None and not is_sought(frame):
        frame = frame.f_back
    return frame


def asking() -> types.FrameType | None:
    """Return the innermost frame that is none of framelift's: of captured code, while a rehearsal runs."""
    return first_above(lambda frame: not is_own_code(frame.f_code))


#: code that framelift gives to programs, by id
_GIVEN: dict[int, types.CodeType] = {}


def captured_functions(source: str, file: str) -> dict[str, Any]:
    """Functions of framelift's that are captured code, by name, under a file name of their own."""
    code = compile(source, file, "exec", dont_inherit=True)
    pending = [code]
    while pending:
        one = pending.pop()
        _GIVEN[id(one)] = one
        pending += [value for value in one.co_consts if type(value) is types.CodeType]
    space: dict[str, Any] = {}
    exec(code, space)
    return space


def is_captured_function(code: types.CodeType) -> bool:
    """Return whether this is code of such a function."""
    return id(code) in _GIVEN


#: the code of functions below whose frames captured code runs, by id: the hash of a code object reads all of it
_BEGINNINGS: dict[int, types.CodeType] = {}


def begins_rehearsal(function: _Function) -> _Function:
    """A decorator: the frames below this function are those of captured code."""
    _BEGINNINGS[id(function.__code__)] = function.__code__
    return function


def beginnings() -> tuple[types.CodeType, ...]:
    """The codes of these functions."""
    return tuple(_BEGINNINGS.values())


def is_beginning(code: types.CodeType) -> bool:
    """Return whether captured code, and what it sees of frames, ends at a frame of this code."""
    return id(code) in _BEGINNINGS

"""Where framelift's own files are: the one answer to "is this frame ours?"."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["FRAMELIFT", "begins_rehearsal", "is_beginning", "is_own_code", "own_file"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: the folder of framelift's files, with the separator behind it
FRAMELIFT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def own_file(*parts: str) -> str:
    """The path of one of framelift's files or folders."""
    return FRAMELIFT + os.path.join(*parts)


def is_own_code(code: types.CodeType) -> bool:
    """Whether a code object was written in one of framelift's files."""
    return code.co_filename.startswith(FRAMELIFT)


#: the code of functions below whose frames captured code runs, by id: the hash of a code object reads all of it
_BEGINNINGS: dict[int, types.CodeType] = {}


def begins_rehearsal(function: _Function) -> _Function:
    """A decorator: the frames below this function are those of captured code."""
    _BEGINNINGS[id(function.__code__)] = function.__code__
    return function


def is_beginning(code: types.CodeType) -> bool:
    """Whether captured code, and what it sees of frames, ends at a frame of this code."""
    return id(code) in _BEGINNINGS

"""Where framelift's own files are: the one answer to "is this frame ours?"."""

from __future__ import annotations

import os
import types

__all__ = ["FRAMELIFT", "is_own_code", "own_file"]

#: the folder of framelift's files, with the separator behind it
FRAMELIFT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def own_file(*parts: str) -> str:
    """The path of one of framelift's files or folders."""
    return FRAMELIFT + os.path.join(*parts)


def is_own_code(code: types.CodeType) -> bool:
    """Whether a code object was written in one of framelift's files."""
    return code.co_filename.startswith(FRAMELIFT)

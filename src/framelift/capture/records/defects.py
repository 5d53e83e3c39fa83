"""Defects of framelift never break the program: written to a file, reported once, and the function runs eagerly."""

from __future__ import annotations

import inspect
import itertools
import os
import platform
import tempfile
import traceback
import types
from pathlib import Path

import torch

from ... import config
from ..._core import is_a
from ...exc import FrameliftError, InternalError
from ...vocabulary.log import warn
from ...vocabulary.outside_exceptions import innermost_trace
from ...vocabulary.own_code import FRAMELIFT

_OWN = (FRAMELIFT, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)
_numbers = itertools.count(1)
_MOST_FILES = 20


def is_defect(error: BaseException) -> bool:
    """Return whether an exception out of a capture is framelift's own: not asked for, not raised by the user's code."""
    if is_a(error, FrameliftError):
        return is_a(error, InternalError)
    trace = innermost_trace(error)
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN)


def report_defect(error: BaseException, function: types.FunctionType, *, fullgraph: bool) -> None:
    """Warn, with a file for a bug report.  With `config.strict`, or where eager is not allowed, raise."""
    if config.strict or fullgraph:
        if is_a(error, InternalError):
            raise error
        raise InternalError(
            f"framelift failed to capture {function.__qualname__}: {type(error).__name__}: {error}"
        ) from error
    number = next(_numbers)
    where = f" Details for a bug report are in {_written(error, function, number)}." if number <= _MOST_FILES else ""
    warn(
        f"a defect of framelift itself keeps {function.__qualname__} from being captured; it runs eagerly. "
        f"{type(error).__name__}: {error}.{where}"
    )


def _written(error: BaseException, function: types.FunctionType, number: int) -> Path:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = "(not available)"
    code = function.__code__
    return written(
        f"defect_{os.getpid()}_{number}.txt",
        f"framelift failed to capture {function.__qualname__} ({code.co_filename}:{code.co_firstlineno})\n\n"
        f"python {platform.python_version()}, torch {torch.__version__}, {platform.platform()}\n\n"
        f"{''.join(traceback.format_exception(error))}\n{source}",
    )


def written(name: str, text: str) -> Path:
    """Write a file for who looks into a failure, and return its path."""
    chosen = os.environ.get("FRAMELIFT_REPRO_DIR")
    folder = Path(chosen or Path(tempfile.gettempdir()) / f"framelift_repro_{os.getuid()}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name

"""Questions about files: `os.path.exists` and its like are answered by the file system, and guarded by asking again."""

from __future__ import annotations

import functools
import os
import posix
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...guards.checks import check
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session

#: question -> the function of the `os` module that it calls, which the program may replace
_QUESTIONS = {
    os.path.exists: "stat",
    os.path.lexists: "lstat",
    os.path.isfile: "stat",
    os.path.isdir: "stat",
    os.path.islink: "lstat",
}


@check
def _answers(answer: Any, path: str, ask: Callable[[str], Any]) -> bool:
    """A question about a path has this answer."""
    return bool(ask(path) == answer)


@substitute(*(question for question in _QUESTIONS if question is not os.path.isdir))
def _question(session: Session, callable_: Any, path: Any) -> bool:
    if is_a(path, os.PathLike):
        path = _core.captured(os.fspath, (path,), None)
    name = _QUESTIONS[callable_]
    # an operation that ran before, in the program's order, may have written the file
    if type(path) is not str or _core.read(os, name) is not getattr(posix, name) or session.tape:
        raise Interrupt("unknown-callable", f"os.{callable_.__name__} (opens, reads or writes files and devices)")
    answer: bool = callable_(path)
    said = f"({path!r}) is {answer!r}"
    session.guard(const(callable_), "CHECK", (functools.partial(_answers, answer, path), said), path)
    return answer


@substitute(os.path.isdir)
def _is_directory(session: Session, callable_: Any, s: Any) -> bool:
    return _question(session, callable_, s)

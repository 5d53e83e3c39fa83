"""print() into what was made inside is no effect: text files in memory, and objects of Python classes that write."""

from __future__ import annotations

import builtins
import io
import sys
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session


def _writes_under_watch(file: Any) -> bool:
    if type(file) is io.StringIO:
        return True
    return _core.is_python_class(type(file)) and is_a(lookup.member(type(file), "write"), types.FunctionType)


@substitute(print)
def _print(
    session: Session, /, *args: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False
) -> None:
    if file is None:
        file = session.pending(vars(sys), "stdout")  # captured code redirected it
    if file is None or not _writes_under_watch(file):
        raise Interrupt("unknown-callable", "print (reads or writes the terminal)")
    flushed = bool(flush)
    if not all(part is None or is_a(part, str) for part in (sep, end)):
        return print(sep=sep, end=end, file=io.StringIO())  # raises

    def write(text: Any) -> None:  # the method is looked up each time
        _core.captured(_core.read(file, "write"), (_core.captured(builtins.str, (text,), None),), None)

    for place, value in enumerate(args):
        if place:
            write(" " if sep is None else sep)
        write(value)
    write("\n" if end is None else end)
    if flushed:
        _core.captured(_core.read(file, "flush"), (), None)

"""print() and sys.excepthook into what was made inside are no effects: text files in memory, and objects of Python
classes that write.

The traceback module writes what the hook writes.  CPython 3.11 adds its suggestions ("Did you mean") in C code alone:
which of some names it suggests is asked of it, with an exception made for that; which names there are is read as
captured code reads them.
"""

from __future__ import annotations

import builtins
import ctypes
import io
import sys
import traceback
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...calls.pure import lookup
from ...vocabulary.class_reads import qualname_of
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


#: from 3.12 on the traceback module makes the suggestions
_IN_C = sys.version_info < (3, 12)


@substitute(sys.__excepthook__)
def _excepthook(session: Session, kind: Any, error: Any, trace: Any, /) -> None:
    file = session.pending(vars(sys), "stderr")
    if type(file) is not io.StringIO:
        raise Interrupt("unknown-callable", "sys.excepthook (reads or writes the terminal)")
    if not is_a(error, BaseException) or is_a(error, (SyntaxError, BaseExceptionGroup)):
        raise Interrupt("unknown-callable", f"sys.excepthook of a {qualname_of(type(error))}")
    own = _core.read(error, "__traceback__")
    if own is None and trace is not None:  # which the error would get from now on
        raise Interrupt("unknown-callable", "sys.excepthook of an error without a traceback")
    shown = _core.captured(traceback.TracebackException, (type(error), error, own), None)
    if _IN_C:
        for one, rows in _chain(error, shown):
            _add_suggestion(one, rows)
    _core.captured(_core.read(shown, "print"), (), {"file": file})


def _chain(error: Any, shown: Any) -> Iterator[tuple[Any, Any]]:
    """The exceptions that are shown, and what is shown of each."""
    ahead = [(error, shown)]
    while ahead:
        one, rows = ahead.pop()
        if rows.exceptions is not None:
            raise Interrupt("unknown-callable", "sys.excepthook of a group of exceptions")
        yield one, rows
        for link in ("__cause__", "__context__"):
            below = getattr(rows, link)
            if below is not None:
                ahead.append((_core.read(one, link), below))


def _add_suggestion(error: Any, rows: Any) -> None:
    """Subclasses get none."""
    if type(error) is AttributeError:
        suggested = _suggested(_core.read(error, "name"), _names_of_attributes(error))
    elif type(error) is NameError:
        suggested = _suggested(_core.read(error, "name"), _names_in_scope(error))
    else:
        return
    if suggested is None:
        return
    if type(rows._str) is not str or not rows._str:
        raise Interrupt("unknown-callable", "sys.excepthook of an error whose text is not known")
    rows._str += f". Did you mean: {suggested!r}?"


def _names_of_attributes(error: Any) -> Iterator[list[Any]]:
    owner = _core.read(error, "obj")
    if owner is None:
        return
    try:
        names = _core.captured(dir, (owner,), None)
    except Exception:  # noqa: BLE001  of the program's own `__dir__`: it is not shown
        return
    yield names


def _names_in_scope(error: Any) -> Iterator[list[Any]]:
    """Those of local variables, of globals and of built-ins: the first that are like the name are it."""
    trace = _core.read(error, "__traceback__")
    if trace is None:
        return
    while (below := _core.read(trace, "tb_next")) is not None:
        trace = below
    frame = _core.read(trace, "tb_frame")
    yield list(_core.read(_core.read(frame, "f_code"), "co_varnames"))
    yield _core.captured(list, (_core.read(frame, "f_globals"),), None)
    if frame.f_builtins is not vars(builtins):
        raise Interrupt("unknown-callable", "sys.excepthook, where a frame has built-ins of its own,")
    yield _core.captured(list, (_core.read(builtins, "__dict__"),), None)


def _suggested(name: Any, groups: Iterator[list[Any]]) -> str | None:
    if type(name) is not str:
        return None
    for names in groups:
        if not all(type(one) is str for one in names):
            raise Interrupt("unknown-callable", "sys.excepthook, where names are no texts")
        found = _like(name, names)
        if found is not None:
            return found
    return None


def _raising() -> None:
    raise error  # type: ignore[name-defined]  # noqa: F821  # a global of the functions that are made of this code


def _like(name: str, names: list[str]) -> str | None:
    """Return the name that CPython suggests for a misspelled one, where the names are local variables alone."""
    unique = list(dict.fromkeys(names))
    made = _raising.__code__.replace(co_varnames=tuple(unique), co_nlocals=len(unique))
    error = NameError("", name=name)
    try:
        types.FunctionType(made, {"error": error, "__builtins__": {}})()
    except NameError as raised:
        file = io.StringIO()
        display = ctypes.pythonapi._PyErr_Display
        display.argtypes, display.restype = [ctypes.py_object] * 4, None
        display(file, NameError, raised, raised.__traceback__)
        _, asks, rest = file.getvalue().rpartition("Did you mean: '")
        found = rest.rpartition("'?")[0] if asks else None
        return found if found in unique else None
    return None

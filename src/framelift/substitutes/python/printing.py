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
    from ...rehearsal.session import Session

__all__: list[str] = []


_NAMES = frozenset({"sep", "end", "file", "flush"})


def _writes_under_watch(file: Any) -> bool:
    if type(file) is io.StringIO:
        return True
    return _core.is_python_class(type(file)) and is_a(lookup.member(type(file), "write"), types.FunctionType)


@substitute(print)
def _print(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    file = kwargs.get("file")
    if file is None:
        file = session.world.overlay.get((id(vars(sys)), "stdout"))  # captured code redirected it
    if file is None or not _writes_under_watch(file):
        raise Interrupt("unknown-callable", "print (reads or writes the terminal)")
    separator, end = (kwargs.get(name) for name in ("sep", "end"))
    if not all(part is None or type(part) is str for part in (separator, end)) or kwargs.keys() - _NAMES:
        # raises
        return callable_(file=io.StringIO(), **{name: value for name, value in kwargs.items() if name != "file"})
    write = _core.read(file, "write")
    for place, value in enumerate(args):
        if place:
            _core.captured(write, (" " if separator is None else separator,), None)
        _core.captured(write, (_core.captured(builtins.str, (value,), None),), None)
    _core.captured(write, ("\n" if end is None else end,), None)
    if kwargs.get("flush"):
        _core.captured(_core.read(file, "flush"), (), None)

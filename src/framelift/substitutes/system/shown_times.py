"""Dates and times as the locale writes them, and the size of the terminal: settings of the process that a guard asks
again.
"""

from __future__ import annotations

import datetime
import functools
import operator
import os
import posix
import shutil
import sys
import time
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import id
from ...calls.call_tables import substitute
from ...guards.checks import check, gives
from ...vocabulary.class_reads import members_of
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...rehearsal.session import Session

_KINDS = (datetime.date, datetime.datetime, datetime.time)
_FORMATS = [
    members_of(kind)[name] for kind in _KINDS for name in ("strftime", "__format__") if name in members_of(kind)
]
#: ask no code of the program
_ZONES = (types.NoneType, datetime.timezone)


@check
def _is_written(function: Any, value: Any, how: str, text: str, _: Any) -> bool:
    """A date is written like this."""
    return bool(function(value, how) == text)


@substitute(*dict.fromkeys(_FORMATS))
def _write(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    plain = len(args) == 2 and not kwargs and type(args[0]) in _KINDS and type(args[1]) is str
    if (
        not plain
        or type(getattr(args[0], "tzinfo", None)) not in _ZONES
        or _core.read(time, "strftime") is not _STRFTIME
    ):
        raise Interrupt("unknown-callable", f"{callable_.__qualname__} (reads or changes state of the process)")
    value, how = args
    text: str = callable_(value, how)
    said = f"of {value!r} by {how!r} is {text!r}"
    session.world.guard(
        const(callable_), "CHECK", (functools.partial(_is_written, callable_, value, how, text), said), (value, how)
    )
    return text


_STRFTIME = time.strftime


def _asked_terminal() -> tuple[int, int] | None:
    """Return the size of the terminal; None where there is none."""
    file: Any = sys.__stdout__
    try:
        columns, lines = os.get_terminal_size(file.fileno())
    except (AttributeError, ValueError, OSError):
        return None
    return columns, lines


@substitute(shutil.get_terminal_size)
def _terminal_size(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As the shutil module has it: the environment, the terminal, what was given."""
    (fallback,) = args
    if type(fallback) is not tuple or [type(number) for number in fallback] != [int, int]:
        raise Interrupt("unknown-callable", "shutil.get_terminal_size of other than two numbers")
    told = [_told(name) for name in ("COLUMNS", "LINES")]
    if any(number <= 0 for number in told):
        replaced = (id(vars(sys)), "__stdout__") in session.world.overlay
        if replaced or _core.read(os, "get_terminal_size") is not posix.get_terminal_size:
            raise Interrupt("unknown-callable", "shutil.get_terminal_size, which asks code of the program,")
        found = _asked_terminal()
        said = f"() is {found!r}"
        session.world.guard(const(_asked_terminal), "CHECK", (functools.partial(gives, found), said))
        told = [one if one > 0 else size or other for one, size, other in zip(told, found or fallback, fallback)]
    return os.terminal_size(told)


def _told(name: str) -> int:
    try:
        return int(_core.captured(operator.getitem, (_core.read(os, "environ"), name), None))
    except (KeyError, ValueError):
        return 0

"""warnings.warn: what happens to a warning is decided by filters, which are facts like any other.

An ignored warning is nothing.  One that captured code turns into an exception under filters of its own is raised.  All
others are shown outside, by the program itself: they interrupt.

C code warns without calling anything that could be watched, and looks at the process's filters.  During a
rehearsal a row stands before these (`quiet_capture.py`) that asks the session.  It matches nothing where no captured
code runs.
"""

from __future__ import annotations

import _warnings
import re
import warnings
from typing import Any

from ... import _core
from ..._core import is_a
from ...boundary.gateway import let_in
from ...boundary.import_rules import rule
from ...boundary.world import World
from ...calls.call_tables import substitute
from ...recording.session import Session
from ...vocabulary.origins import Origin
from ...vocabulary.quiet_capture import Watched
from ...vocabulary.reasons import Interrupt


def _told_outside(why: str = "") -> Interrupt:
    return Interrupt("unknown-callable", "_warnings.warn" + (f" ({why})" if why else ""))


@substitute(_warnings.warn)
def _warn(
    session: Session, callable_: Any, /, message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None
) -> None:
    text, kind = (
        _text_of(message),
        type(message) if issubclass(type(message), Warning) else UserWarning if category is None else category,
    )
    if text is None or not is_a(kind, type) or not issubclass(kind, Warning) or type(stacklevel) is not int:
        raise _told_outside()
    is_unheard(session, text, kind, message)


def is_unheard(session: Session, text: str, kind: type, message: Any = "") -> bool:
    """Return True for a warning that nobody hears; one that is an error is raised, all others interrupt."""
    filters = _core.read(warnings, "filters")
    action = _action(filters, text, kind)
    if action == "ignore":
        return True
    # A warning that was shown before, at the same line and under the same filters, is not looked at again: filters set
    # inside are new.
    if action != "error" or session.shadow_of(filters) is not None:
        raise _told_outside(f"by a filter with {action}")
    raise message if message and type(message) is not str else _core.captured(kind, (text,), None)


def _text_of(message: Any) -> str | None:
    """The words of a warning, where they are known without asking it."""
    if issubclass(type(message), Warning):
        if type(message).__str__ is not BaseException.__str__ or len(message.args) != 1:
            return None
        message = message.args[0]
    return message if type(message) is str else None


def _action(filters: Any, text: str, kind: type) -> str:
    """Return the action of the first filter that matches a warning."""
    if type(filters) is not list:
        raise _told_outside()
    for row in filters:
        if type(row) is not tuple or len(row) != 5:
            raise _told_outside()
        action, pattern, category, module, line = row
        if not is_a(category, type) or type(pattern) not in (type(None), re.Pattern):
            raise _told_outside()
        if issubclass(kind, category) and (pattern is None or pattern.match(text)):
            if module is not None or line != 0 or type(action) is not str:
                raise _told_outside("by a filter for one place")
            return action
    raise _told_outside("by no filter")


@rule(Watched)
def _filters(world: World, value: Watched, origin: Origin) -> Any:
    """Captured code sees the filters that are there outside of rehearsals."""
    if not value.users:
        raise Interrupt("opaque-object", "the filters of warnings, kept from another thread's rehearsal,")
    return let_in(world, value.outside, origin)

"""operator.attrgetter, itemgetter and methodcaller: their reads and calls are done by captured code."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute

if TYPE_CHECKING:
    from ...rehearsal.session import Session

_CALL_ATTRGETTER = vars(operator.attrgetter)["__call__"]
_CALL_METHODCALLER = vars(operator.methodcaller)["__call__"]


@substitute(_CALL_ATTRGETTER)
def _attrgetter(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    getter, *rest = args
    if len(rest) != 1 or kwargs:
        return getter(*rest, **kwargs)  # raises
    found = []
    for path in getter.__reduce__()[1]:
        value = rest[0]
        for name in path.split("."):
            value = _core.read(value, name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


@substitute(_CALL_METHODCALLER)
def _methodcaller(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    caller, *rest = args
    if len(rest) != 1 or kwargs:
        return caller(*rest, **kwargs)  # raises
    made, arguments = caller.__reduce__()
    keywords = {}
    if is_a(made, partial):  # made with keywords: partial(methodcaller, name, **keywords)
        arguments, keywords = (*made.args, *arguments), made.keywords
    name, *arguments = arguments
    return _core.captured(_core.read(rest[0], name), tuple(arguments), keywords)

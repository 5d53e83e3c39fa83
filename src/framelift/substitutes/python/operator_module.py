"""operator.attrgetter, itemgetter and methodcaller: their reads and calls are done by captured code."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute

if TYPE_CHECKING:
    from ...recording.session import Session

_CALL_ATTRGETTER = vars(operator.attrgetter)["__call__"]
_CALL_METHODCALLER = vars(operator.methodcaller)["__call__"]


@substitute(_CALL_ATTRGETTER)
def _attrgetter(session: Session, getter: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        return getter(*args, **kwargs)  # raises
    found = []
    for path in getter.__reduce__()[1]:
        value = args[0]
        for name in path.split("."):
            value = _core.read(value, name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


@substitute(_CALL_METHODCALLER)
def _methodcaller(session: Session, caller: Any, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        return caller(*args, **kwargs)  # raises
    made, arguments = caller.__reduce__()
    keywords = {}
    if is_a(made, partial):  # made with keywords: partial(methodcaller, name, **keywords)
        arguments, keywords = (*made.args, *arguments), made.keywords
    name, *arguments = arguments
    return _core.captured(_core.read(args[0], name), tuple(arguments), keywords)

"""The tables of the call rule: which callable is what.  Filled by lookup.py, basics.py and special_cases.py.

Keys are the real callables.  The native core asks `verdict` once per callable and remembers the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..torch_ports.port import Missing

if TYPE_CHECKING:
    from ..rehearsal.session import Session

#: handler(session, callable, args, kwargs): what runs in place of a callable
Handler = Callable[["Session", Any, tuple[Any, ...], dict[str, Any]], Any]
_Handler = TypeVar("_Handler", bound=Handler)

#: safe with any argument: reads nothing of its arguments but through Python frames, which are watched
PURE: dict[int, Any] = {}
#: safe unless an argument is a handle (an external instance), which it would read behind our back
PURE_ON_INTERNALS: dict[int, Any] = {}
#: as pure, but it calls its arguments: C callables among them must be declared too
HIGHER_ORDER: dict[int, Any] = {}
#: handler(session, callable, args, kwargs) runs instead, with the probes paused
SUBSTITUTES: dict[int, tuple[Any, Handler]] = {}
#: the same for every Python function of one code: wrappers that one decorator makes
CODE_HANDLERS: dict[Any, Handler] = {}


def pure(*callables: Any) -> None:
    """Declare C callables that may be called natively with any argument."""
    PURE.update((id(c), c) for c in callables)


def pure_on_internals(*callables: Any) -> None:
    """Declare C callables that may be called natively when no argument is a handle."""
    PURE_ON_INTERNALS.update((id(c), c) for c in callables)


def substitute(*callables: Any) -> Callable[[_Handler], _Handler]:
    """Register a handler for exactly these callables: `handler(session, callable, args, kwargs)`."""

    def register(handler: _Handler) -> _Handler:
        assert all(map(callable, callables)), callables
        there = [c for c in callables if type(c) is not Missing]
        again = [c for c in there if id(c) in SUBSTITUTES]
        assert not again, f"{again} have a handler already"
        SUBSTITUTES.update((id(c), (c, handler)) for c in there)
        return handler

    return register

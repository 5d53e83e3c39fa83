"""Python's random generators: their state is read and written as any other, never a number frozen into a graph.

Captured code draws from a private copy (world/more_shadows.py), whose new state is written back at the exit.  A number that depends on
the state outside is a fact of that state, and guarded as such; after a seed given inside it is a value like any other.
"""

from __future__ import annotations

import _random
import weakref
from typing import Any

from .. import _core
from ..reasons import Interrupt
from .registry import substitute

__all__: list[str] = []

_read_state = _random.Random.getstate
#: code whose last capture depended on the state of a generator outside
_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def _known(session: Any) -> dict[int, Any]:
    return session.notes.setdefault("random", {})


def _depend(session: Any, generator: Any) -> None:
    """What is read now depends on the state at the start, unless captured code gave the generator one of its own."""
    record = session.world.by_seen.get(id(generator))
    if record is None or id(generator) in _known(session):
        return
    code = session.function.__code__
    if code in _guarded and not session.whole:   # the state changes with every draw: one more capture would be as short-lived
        raise Interrupt("random-state", type(generator).__qualname__)
    _guarded.add(code)
    _known(session)[id(generator)] = generator
    state = _read_state(record.original)
    session.world.guard(record.origin, "CHECK", (lambda now: _read_state(now) == state, "has the state it had"), "random state")


def _given(session: Any, generator: Any) -> None:
    """Captured code gave the generator a state, be it the one it had: at another call it has another."""
    shadow = session.shadow_of(generator)
    if shadow is not None and id(generator) not in _known(session):
        shadow.before.clear()
    _known(session)[id(generator)] = generator


@substitute(_random.Random.random, _random.Random.getrandbits, _random.Random.getstate)
def _draw(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args:
        _depend(session, args[0])
    return _core.natively(callable_, args, kwargs)


@substitute(_random.Random.seed)
def _seed(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 2 or type(args[1]) not in (int, float):   # other seeds are hashed, by their address perhaps
        raise Interrupt("random-state", "a generator seeded by the system")
    result = _core.natively(callable_, args, None)
    _given(session, args[0])
    return result


@substitute(_random.Random.setstate)
def _setstate(session: Any, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = _core.natively(callable_, args, kwargs)
    _given(session, args[0])
    return result

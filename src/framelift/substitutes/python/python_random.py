"""Python's random generators: their state is read and written as any other, never a number frozen into a graph.

Captured code draws from a private copy (boundary/becomes/copied_objects.py).  What it draws from a generator
outside is a symbolic number: every call draws it anew, from the real one, before the graph.  After a seed given
inside it is a value like any other, and the new state is written back at the exit.  Where symbols do not do, a
number that depends on the state outside is a fact of that state, and guarded as such.
"""

from __future__ import annotations

import _random
import random
import types
from typing import TYPE_CHECKING, Any

from ... import _core
from ...boundary.dynamism import NOTHING
from ...calls.call_tables import substitute
from ...graph.symbols.meanings import Drawn
from ...guards.equality import indistinguishable
from ...vocabulary.class_reads import qualname_of
from ...vocabulary.code_knowledge import knowledge_of
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...rehearsal.session import Session

_read_state = _random.Random.getstate
_MOST_DECIDED = 4
_MOST_BITS = 62
#: so many symbolic numbers in one rehearsal; what is calculated of more takes longer than it is worth
_MOST_DRAWN = 128


def note_decided(code: types.CodeType, relations: int) -> None:
    """A capture relies on so many relations of numbers that it draws."""
    if relations:
        knowledge_of(code).decided_by_draws += relations


#: generators by id, and the numbers drawn symbolically, by their generators
_KNOWN: FeatureState[dict[int, Any]] = FeatureState(dict)
_DRAWN: FeatureState[list[str]] = FeatureState(list)


def _known(session: Session) -> dict[int, Any]:
    return _KNOWN.of(session)


def _is_known(session: Session, generator: Any) -> bool:
    """Return whether the generator's state is none of the world outside, or is guarded already."""
    return session.world.by_seen.get(id(generator)) is None or id(generator) in _known(session)


def _depend(session: Session, generator: Any) -> None:
    """Make what is read now depend on the state at the start, unless captured code seeded the generator."""
    if _is_known(session, generator):
        return
    known = knowledge_of(session.function.__code__)
    # the state changes with every draw: one more capture would be as short-lived
    if known.guards_generator and not session.fullgraph:
        raise Interrupt("random-state", qualname_of(type(generator)))
    known.guards_generator = True
    _known(session)[id(generator)] = generator
    record = session.world.by_seen[id(generator)]
    state = _read_state(record.original)
    session.world.guard(
        record.origin,
        "CHECK",
        (lambda now: indistinguishable(_read_state(now), state), "has the state it had"),
        "random state",
    )


def _given(session: Session, generator: Any) -> None:
    """Captured code gave the generator a state, be it the one it had: at another call it has another."""
    shadow = session.shadow_of(generator)
    if shadow is not None and id(generator) not in _known(session):
        shadow.before.clear()
    _known(session)[id(generator)] = generator


def _may_follow(session: Session, generator: Any) -> bool:
    """Return whether what is drawn now may be a symbolic number."""
    return (
        not _is_known(session, generator)
        and session.shadow_of(generator) is not None
        and may_follow(session, qualname_of(type(generator)))
    )


def may_follow(session: Session, generator: str) -> bool:
    """Return whether a number may be symbolic that is drawn now from a generator outside, called `generator`; an
    interrupt where eager mode is to draw it.
    """
    if (
        session.exporting
        or session.world.dynamism is NOTHING
        or session.recorder.tape_is_a_body()
        or session.recorder.in_transform()
    ):
        return False
    if knowledge_of(session.function.__code__).decided_by_draws >= _MOST_DECIDED and not session.fullgraph:
        raise Interrupt("random-state", generator)
    drawn = _DRAWN.of(session)
    drawn.append(generator)
    if len(drawn) > _MOST_DRAWN:
        raise Interrupt("symbolic-number", f"more than {_MOST_DRAWN} numbers drawn from {generator}")
    return True


def _followed(session: Session, callable_: Any, generator: Any, args: tuple[Any, ...]) -> Any:
    """The number that this call will draw, as one that each call draws anew."""
    hint = callable_(generator, *args)
    shadow = session.shadow_of(generator)
    assert shadow is not None
    shadow.before[:] = [_read_state(generator)]  # the real one gets there by itself
    record = session.world.by_seen[id(generator)]
    return session.recorder.with_symbols().drawn(Drawn(callable_, args, record.origin), hint, f"{callable_.__name__}()")


@substitute(_random.Random.random, _random.Random.getrandbits)
def _draw(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    rest = args[1:]
    plain = not kwargs and (
        not rest
        if callable_ is _random.Random.random
        else len(rest) == 1 and type(rest[0]) is int and 0 < rest[0] <= _MOST_BITS
    )
    if args and plain and _may_follow(session, args[0]):
        return _followed(session, callable_, args[0], rest)
    if args:
        _depend(session, args[0])
    return _core.natively(callable_, args, kwargs)


_below = random.Random._randbelow_with_getrandbits  # type: ignore[attr-defined]  # private in typeshed
#: the same function, not substituted
_captured_below = types.FunctionType(
    _below.__code__.replace(co_name="_randbelow"), _below.__globals__, "_randbelow", _below.__defaults__
)


@substitute(_below)
def _draw_below(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """It draws until the number is small enough: as one draw, how often does not matter."""
    if (
        not kwargs
        and len(args) == 2
        and type(args[0]) is random.Random
        and type(args[1]) is int
        and 1 <= args[1] < 1 << _MOST_BITS
        and (type(_core.read(args[0], "getrandbits")) is types.BuiltinMethodType)
        and _may_follow(session, args[0])
    ):
        return _followed(session, callable_, args[0], args[1:])
    return _core.captured(_captured_below, args, kwargs)


@substitute(_random.Random.getstate)
def _getstate(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args:
        _depend(session, args[0])
    return _core.natively(callable_, args, kwargs)


@substitute(_random.Random.seed)
def _seed(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # other seeds are hashed, by their address perhaps
    if kwargs or len(args) != 2 or type(args[1]) not in (int, float):
        raise Interrupt("random-state", "a generator seeded by the system")
    result = _core.natively(callable_, args, None)
    _given(session, args[0])
    return result


@substitute(_random.Random.setstate)
def _setstate(session: Session, callable_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = _core.natively(callable_, args, kwargs)
    _given(session, args[0])
    return result

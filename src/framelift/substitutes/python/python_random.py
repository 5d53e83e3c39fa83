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
    from ...recording.session import Session

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
    return session.record_of(generator) is None or id(generator) in _known(session)


def _depend(session: Session, generator: Any) -> None:
    """Make what is read now depend on the state at the start, unless captured code seeded the generator."""
    if _is_known(session, generator):
        return
    known = knowledge_of(session.function.__code__)
    # the state changes with every draw: one more capture would be as short-lived
    if known.guards_generator and not session.policy.fullgraph:
        raise Interrupt("random-state", qualname_of(type(generator)))
    known.guards_generator = True
    _known(session)[id(generator)] = generator
    record = session.record_of(generator)
    assert record is not None
    state = _read_state(record.original)
    session.guard(
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
    if session.policy.exporting or session.dynamism is NOTHING or session.tape_is_a_body() or session.in_transform():
        return False
    if knowledge_of(session.function.__code__).decided_by_draws >= _MOST_DECIDED and not session.policy.fullgraph:
        raise Interrupt("random-state", generator)
    drawn = _DRAWN.of(session)
    drawn.append(generator)
    if len(drawn) > _MOST_DRAWN:
        raise Interrupt("symbolic-number", f"more than {_MOST_DRAWN} numbers drawn from {generator}")
    return True


def _followed(session: Session, callable_: Any, generator: Any, args: tuple[Any, ...]) -> Any:
    """The number that this call will draw, as one that each call draws anew."""
    hint = callable_(generator, *args)
    shadow, record = session.shadow_of(generator), session.record_of(generator)
    assert shadow is not None and record is not None
    shadow.before[:] = [_read_state(generator)]  # the real one gets there by itself
    return session.with_symbols().drawn(Drawn(callable_, args, record.origin), hint, f"{callable_.__name__}()")


@substitute(_random.Random.random)
def _draw(session: Session, callable_: Any, generator: Any, /) -> Any:
    return _drawn(session, callable_, generator, ())


@substitute(_random.Random.getrandbits)
def _draw_bits(session: Session, callable_: Any, generator: Any, k: Any, /) -> Any:
    return _drawn(session, callable_, generator, (k,), type(k) is int and 0 < k <= _MOST_BITS)


def _drawn(session: Session, callable_: Any, generator: Any, bits: tuple[Any, ...], is_plain: bool = True) -> Any:
    if is_plain and _may_follow(session, generator):
        return _followed(session, callable_, generator, bits)
    _depend(session, generator)
    return _core.natively(callable_, (generator, *bits), None)


_below = random.Random._randbelow_with_getrandbits  # type: ignore[attr-defined]  # private in typeshed
#: the same function, not substituted
_captured_below = types.FunctionType(
    _below.__code__.replace(co_name="_randbelow"), _below.__globals__, "_randbelow", _below.__defaults__
)


@substitute(_below)
def _draw_below(session: Session, callable_: Any, self: Any, n: Any) -> Any:
    """It draws until the number is small enough: as one draw, how often does not matter."""
    if (
        type(self) is random.Random
        and type(n) is int
        and 1 <= n < 1 << _MOST_BITS
        and type(_core.read(self, "getrandbits")) is types.BuiltinMethodType
        and _may_follow(session, self)
    ):
        return _followed(session, callable_, self, (n,))
    return _core.captured(_captured_below, (self, n), None)


@substitute(_random.Random.getstate)
def _getstate(session: Session, callable_: Any, generator: Any, /) -> Any:
    _depend(session, generator)
    return _core.natively(callable_, (generator,), None)


@substitute(_random.Random.seed)
def _seed(session: Session, callable_: Any, generator: Any, n: Any = None, /) -> Any:
    # other seeds are hashed, by their address perhaps
    if type(n) not in (int, float):
        raise Interrupt("random-state", "a generator seeded by the system")
    result = _core.natively(callable_, (generator, n), None)
    _given(session, generator)
    return result


@substitute(_random.Random.setstate)
def _setstate(session: Session, callable_: Any, generator: Any, state: Any, /) -> Any:
    result = _core.natively(callable_, (generator, state), None)
    _given(session, generator)
    return result

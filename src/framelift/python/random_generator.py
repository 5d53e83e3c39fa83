"""Generators of Python's `random` module: their state is read and written as any other, never a number frozen into a
graph.

Captured code draws from a private copy.  What it draws from a generator outside is a symbolic number: every call draws
it anew, from the real one, before the graph.  After a seed given inside it is a value like any other, and the new state
is written back at the exit.  Where symbols do not do, a number that depends on the state outside is a fact of that
state, and guarded as such.
"""

from __future__ import annotations

import random
import types
from _random import Random
from typing import Any

from .. import _core
from ..boundary.becomes.containers import CopyRule, LetIn
from ..boundary.records import Shadow
from ..boundary.world import World
from ..calls.call_tables import substitute
from ..calls.pure.judges import judges
from ..calls.pure.lookup import declare
from ..calls.pure.words import Kind
from ..exits.instances import Base, Contents, instance, statement
from ..exits.recipe import Node, Text, Walk
from ..graph.symbols.meanings import Drawn
from ..guards.equality import indistinguishable
from ..recording.drawn_numbers import may_follow
from ..recording.session import Session
from ..vocabulary.class_reads import qualname_of
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.origins import Origin
from ..vocabulary.reasons import Interrupt
from .feature import Feature, register


def _fill(world: World, copy: Any, value: Any, origin: Origin, let_in: LetIn) -> None:
    Random.setstate(copy, Random.getstate(value))


def _snapshot(copy: Any) -> list[Any]:
    """Return its state in a list, which is emptied when captured code gives the generator a state: that one is written
    back, whatever the state was before.
    """
    return [Random.getstate(copy)]


def _changes(walk: Walk, shadow: Shadow, kind: type[Any]) -> list[Text]:
    state = kind.getstate(shadow.copy)
    if [state] == shadow.before:
        return []
    return [(walk.constant(kind, "Generator"), ".setstate(", walk.part(shadow.copy), ", ", walk.part(state), ")")]


def _contents(walk: Walk, node: Node) -> Contents:
    """One made inside continues where it was left; `__new__` without a seed has given it any state."""
    return (statement(walk, Random, "setstate", node, walk.part(Random.getstate(node.obj))),), ()


declare(Kind(Random, make="judged", methods="random"))  # numbers are drawn by substitutes


@judges(Random)
def _made(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return "pure" if args and type(args[0]) is int else "random"


@judges(Random.__new__, Random.__init__)
def _made_by_new(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    # Python's own class takes any seed and turns it into a number by `seed`, a substitute; without one it asks the
    # system.
    seed = args[1] if len(args) > 1 else next(iter(kwargs.values()), None)
    return "random" if seed is None else "pure"


register(
    Feature(
        Random,
        CopyRule(lambda value: Random.__new__(type(value)), _fill, _snapshot),
        _changes,
        instance,
        Base(contents=_contents),
    )
)


# ---- what is drawn from one, and seeds and states --------------------------------------------------------------------

_MOST_BITS = 62
#: by id, those whose state is known
_KNOWN: FeatureState[dict[int, Any]] = FeatureState(dict)


def _is_known(session: Session, generator: Any) -> bool:
    """Return whether the generator's state is none of the world outside, or is guarded already."""
    return session.record_of(generator) is None or id(generator) in _KNOWN.of(session)


def _depend(session: Session, generator: Any) -> None:
    """Make what is read now depend on the state at the start, unless captured code seeded the generator."""
    if _is_known(session, generator):
        return
    known = knowledge_of(session.function.__code__)
    # the state changes with every draw: one more capture would be as short-lived
    if known.guards_generator and not session.policy.fullgraph:
        raise Interrupt("random-state", qualname_of(type(generator)))
    known.guards_generator = True
    _KNOWN.of(session)[id(generator)] = generator
    record = session.record_of(generator)
    assert record is not None
    state = Random.getstate(record.original)
    session.guard(
        record.origin,
        "CHECK",
        (lambda now: indistinguishable(Random.getstate(now), state), "has the state it had"),
        "random state",
    )


def _given(session: Session, generator: Any) -> None:
    """Captured code gave the generator a state, be it the one it had: at another call it has another."""
    shadow = session.shadow_of(generator)
    if shadow is not None and id(generator) not in _KNOWN.of(session):
        shadow.before.clear()
    _KNOWN.of(session)[id(generator)] = generator


def _may_follow(session: Session, generator: Any) -> bool:
    """Return whether what is drawn now may be a symbolic number."""
    return (
        not _is_known(session, generator)
        and session.shadow_of(generator) is not None
        and may_follow(session, qualname_of(type(generator)))
    )


def _followed(session: Session, callable_: Any, generator: Any, args: tuple[Any, ...]) -> Any:
    """The number that this call will draw, as one that each call draws anew."""
    hint = callable_(generator, *args)
    shadow, record = session.shadow_of(generator), session.record_of(generator)
    assert shadow is not None and record is not None
    shadow.before[:] = [Random.getstate(generator)]  # the real one gets there by itself
    return session.with_symbols().drawn(Drawn(callable_, args, record.origin), hint, f"{callable_.__name__}()")


@substitute(Random.random)
def _draw(session: Session, callable_: Any, generator: Any, /) -> Any:
    return _drawn(session, callable_, generator, ())


@substitute(Random.getrandbits)
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


@substitute(Random.getstate)
def _getstate(session: Session, callable_: Any, generator: Any, /) -> Any:
    _depend(session, generator)
    return _core.natively(callable_, (generator,), None)


@substitute(Random.seed)
def _seed(session: Session, callable_: Any, generator: Any, n: Any = None, /) -> Any:
    # other seeds are hashed, by their address perhaps
    if type(n) not in (int, float):
        raise Interrupt("random-state", "a generator seeded by the system")
    result = _core.natively(callable_, (generator, n), None)
    _given(session, generator)
    return result


@substitute(Random.setstate)
def _setstate(session: Session, callable_: Any, generator: Any, state: Any, /) -> Any:
    result = _core.natively(callable_, (generator, state), None)
    _given(session, generator)
    return result

"""Numbers drawn from external generators of Python or numpy: symbolic numbers, drawn anew by each call."""

from __future__ import annotations

import types
from _random import Random
from collections.abc import Callable
from typing import Any

from ..boundary.dynamism import NOTHING
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt
from .session import Session

_MOST_DECIDED = 4
#: so many symbolic numbers in one rehearsal; what is calculated of more takes longer than it is worth
_MOST_DRAWN = 128
#: numbers drawn symbolically, by their generators
_DRAWN: FeatureState[list[str]] = FeatureState(list)

#: by type: read the state of a generator, and give it one, whatever its class says
STATES: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    Random: (Random.getstate, Random.setstate)
}


def state_of(generator: Any) -> Any:
    """The state of a generator."""
    return STATES.get(type(generator), STATES[Random])[0](generator)


def put_state(generator: Any, state: Any) -> None:
    """Give a generator that state again."""
    STATES.get(type(generator), STATES[Random])[1](generator, state)


def note_decided(code: types.CodeType, relations: int) -> None:
    """A capture relies on so many relations of numbers that it draws."""
    if relations:
        knowledge_of(code).decided_by_draws += relations


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

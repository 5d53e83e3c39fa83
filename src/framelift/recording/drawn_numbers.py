"""Numbers drawn from external generators of Python or of a library: symbolic numbers, drawn anew by each call.

A file for a kind of generators says in `STATES` how the state of one is read and written.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..boundary.dynamism import NOTHING
from ..vocabulary.class_reads import mro_of
from ..vocabulary.code_knowledge import knowledge_of
from ..vocabulary.feature_state import FeatureState
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from .session import Session

_MOST_DECIDED = 4
#: so many symbolic numbers in one rehearsal; what is calculated of more takes longer than it is worth
_MOST_DRAWN = 128
#: numbers drawn symbolically, by their generators
_DRAWN: FeatureState[list[str]] = FeatureState(list)

#: by type: functions that read the state of a generator, and that set it
STATES: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {}


def state_of(generator: Any) -> Any:
    """The state of a generator."""
    return _access(generator)[0](generator)


def put_state(generator: Any, state: Any) -> None:
    """Give a generator that state again."""
    _access(generator)[1](generator, state)


def _access(generator: Any) -> tuple[Callable[[Any], Any], Callable[[Any, Any], None]]:
    return next(STATES[cls] for cls in mro_of(type(generator)) if cls in STATES)


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

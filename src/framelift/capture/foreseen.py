"""Breaks that are foreseen: what ended a frame's graph struck in a callee, which runs next and is captured by itself.

Its graph ends at the call that leads there, and so do those of its callees on the way.  They are rehearsed up to that
call only: what is behind it was looked at before.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NamedTuple

from ..bytecode.maker import original_of
from ..graph.metadata.facts import Facts
from ..recording.known_values import may_be_guarded
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..graph.fx.values import Value
    from ..recording.session import Recorder
    from .breaks import Breaks

#: reasons that do not depend on which frame is captured
_EVERYWHERE = frozenset(("disabled", "disallowed", "graph-break", "unknown-callable"))
#: reasons that are about what a tensor holds: an input's values may be guarded, those of other tensors are not known
_OF_VALUES = frozenset(("data-dependent-shape", "tensor-bool", "tensor-item"))


class Foreseen(NamedTuple):
    """A frame of this code is interrupted: `stop` is what its own rehearsal would end with."""

    code: types.CodeType
    stop: Interrupt


def foresee(breaks: Breaks, stop: Interrupt, recorder: Recorder) -> list[Foreseen]:
    """Return the breaks of the frames between the broken one and the one where it struck, outermost first.

    Not of a frame that may be at this instruction for another time, nor of those that it calls.
    """
    about_values = stop.reason.id in _OF_VALUES
    if stop.before is not None or not about_values and stop.reason.id not in _EVERYWHERE:
        return []
    given = [recorder.value_of(one) for one in _flat(stop.given) if recorder.is_stand_in(one)] if about_values else []
    if about_values and not given:
        return []
    found: list[Foreseen] = []
    for depth in range(1, len(stop.places) // 2 - 1):
        twin, offset = stop.places[-2 * depth - 2], stop.places[-2 * depth - 1]
        code = original_of(twin)
        if code is twin or breaks.may_come_back(code, offset // 2):
            break
        if not all(_is_made_of_much(value, stop.places, depth) for value in given):
            break
        below = Interrupt(stop.reason.id, stop.detail)
        below.places, below.root = stop.places[: -2 * depth], (offset // 2, 0)
        found.append(Foreseen(code, below))
    return found


def _flat(given: Any) -> list[Any]:
    if type(given) in (tuple, list):
        return [one for part in given for one in _flat(part)]
    return [given]


def _is_made_of_much(value: Value, places: tuple[Any, ...], depth: int) -> bool:
    """Return whether a value follows from something that is given to the frame at this depth, and that no guard may
    hold.
    """
    callers, code = places[-2 * depth :], places[-2 * depth - 2]
    pending, seen = [value], set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        step = one.step
        if step is not None and step.places[-2 * depth :] == callers and step.places[-2 * depth - 2] is code:
            pending += step.inputs
        elif type(one.facts) is not Facts or not may_be_guarded(one.facts):
            return True
    return False

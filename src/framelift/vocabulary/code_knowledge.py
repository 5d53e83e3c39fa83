"""Knowledge about code objects that captures gathered, process-wide: one record per code, all of which `reset()` drops.

Rehearsals of the same code go by it.  What one compiled callable knows of a code is its own record
(capture/learned_shapes.py: `Learned`); no other store of framelift has code objects of the program as keys.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType


@dataclass(slots=True)
class CodeKnowledge:
    """Knowledge about one code object."""

    #: something that cannot be undone came after an assumption: rehearsed without assumptions
    without_assumptions: bool = False
    #: leaves are made in eager mode: a break where they are made leaves the rest to be captured
    leaves_eagerly: bool = False
    #: requires_grad is switched in eager mode
    switches_eagerly: bool = False
    #: a tensor that `max` or `min` chose leaves the frame beside one of those it was chosen from
    chooses_eagerly: bool = False
    #: what `max` or `min` walks over compares itself by code of the program
    compares_while_walking: bool = False
    #: something looks at an object to which a function is bound that does not look at it
    reads_receivers: bool = False
    #: the last capture depended on the state of a generator outside
    guards_generator: bool = False
    #: how often what was drawn decided something, in all captures: each other number is a capture
    decided_by_draws: int = 0
    #: the values at an origin that were guarded: what keeps changing is left to eager mode
    guarded_values: dict[str, set[str]] = field(default_factory=dict)
    #: a number taken out of a tensor was another one later: behind the break it is symbolic at once
    taken_numbers_change: bool = False
    #: what followed from the values at an origin, by the origin and the calculation
    results: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    #: where inputs that are written to and overlap lay, in all captures that were compiled for their places
    memory_layouts: set[tuple[int, ...]] = field(default_factory=set)
    #: it ran in eager mode under the stance eager_then_compile
    ran_eagerly: bool = False

    def lesson(self, name: str) -> Callable[[], None]:
        """Return what sets a field to True: done before another rehearsal, which goes by it."""
        return functools.partial(setattr, self, name, True)


_known: weakref.WeakKeyDictionary[CodeType, CodeKnowledge] = weakref.WeakKeyDictionary()


def knowledge_of(code: CodeType) -> CodeKnowledge:
    """The record of a code object; changes to it are kept."""
    found = _known.get(code)
    if found is None:
        found = _known.setdefault(code, CodeKnowledge())
    return found


def forget() -> None:
    """As in a new process."""
    _known.clear()

"""Who holds an object that captured code made: the program, or only the rehearsal.

A rehearsal keeps functions and classes that were made inside to its end, and with them all that they lead to.  So an
object is held by the program where the way back from it, holder by holder, ends at something of the program: a variable
of a running frame, what takes the place of an object of the outside, a write that is pending, or the result.  Objects
that hold each other live until a collection, of which there is none.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any

from ... import _core
from ..._core import id
from ...bytecode import original_of
from ...vocabulary.class_reads import module_of
from ..records import Effect
from ..world import World

#: a way back through more objects than these is given up
_MOST = 20_000


def is_in_a_frame(target: Any) -> bool:
    """Return whether a running frame of captured code holds the target."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if original_of(frame.f_code) is not frame.f_code and _core.frame_holds(frame, target):
            return True
        frame = frame.f_back
    return False


def is_held(world: World, target: Any, result: Any, collected: bool) -> bool:
    """Return whether the program holds an object that was made inside, as far as can be seen.

    `result` is what the root gives, None while it runs; `collected`: the program asked for a collection.
    """
    # no collection begins while captured code runs: what it made is young, unless it asked for one
    made = gc.get_objects() if collected else gc.get_objects(0)
    waiting, seen = [target], {id(target): target}
    while waiting and len(seen) < _MOST:
        if any([_is_the_programs(world, result, one) for one in waiting]):
            return True
        wanted = {id(one) for one in waiting}
        waiting = [
            holder
            for holder in made
            if id(holder) not in seen and not wanted.isdisjoint(map(id, gc.get_referents(holder))) and _leads_on(holder)
        ]
        seen.update((id(one), one) for one in waiting)
    return not collected and _has_cycle(seen)


def _has_cycle(graph: dict[int, Any]) -> bool:
    """Return whether some of these objects, by their ids, hold each other: those that nothing holds are taken away,
    until none is left.
    """
    holds = {key: [id(part) for part in gc.get_referents(one) if id(part) in graph] for key, one in graph.items()}
    counts = dict.fromkeys(graph, 0)
    for parts in holds.values():
        for part in parts:
            counts[part] += 1
    free = [key for key, count in counts.items() if not count]
    while free:
        for part in holds.pop(free.pop()):
            counts[part] -= 1
            if not counts[part]:
                free.append(part)
    return bool(holds)


def _is_the_programs(world: World, result: Any, one: Any) -> bool:
    if one is result or one is world.overlay or type(one) is Effect or id(one) in world.by_seen:
        return True
    return is_in_a_frame(one)


def _leads_on(holder: Any) -> bool:
    """Frames are looked at themselves, those of captured code; framelift's records lead to framelift."""
    cls = type(holder)
    return cls is not types.FrameType and (cls is Effect or not _is_own(cls))


def _is_own(cls: type) -> bool:
    module = module_of(cls)
    return type(module) is str and (module == "framelift" or module.startswith("framelift."))

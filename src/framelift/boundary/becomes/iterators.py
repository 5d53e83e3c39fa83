"""External iterators at a position in a sequence: a copy is at the same position of what is seen of the sequence.

Counters (`itertools.count`) stand at a number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from ...vocabulary.origins import Origin
from ..records import Shadow
from ..world import World
from .opaque import Opaque

_SEQUENCES: tuple[Any, ...] = ([], (), "", "\xe9", b"", bytearray(), range(0), range(1 << 70))
SEQUENCE_ITERATORS: tuple[type, ...] = (
    *dict.fromkeys(type(iter(sequence)) for sequence in _SEQUENCES),
    type(reversed([])),
    reversed,
)
_TURNED = (tuple, str, bytes)  # what `reversed` walks without asking it


def source_of(iterator: Any) -> Any:
    """The sequence an iterator walks; an empty one when it is exhausted."""
    return iterator.__reduce__()[1][0]


def place_of(iterator: Any) -> int:
    """Where an iterator stands; since CPython 3.12 that of a range stands where the range that is left begins."""
    state = iterator.__reduce__()[2:]
    return state[0] if state and state[0] is not None else 0


def steps_between(before: Any, after: Any) -> int:
    """How far an iterator of a range has gone that stands at the beginning of what is left."""
    first, then = source_of(before), source_of(after)
    return len(first) - len(then) if type(then) is range and after.__reduce__()[2:] == (None,) else 0


def exhausted(kind: type) -> Any:
    """An iterator of this type that has let go of its sequence (those of ranges never do)."""
    copy: Any = next(made for made in (reversed([]), reversed(()), *map(iter, _SEQUENCES)) if type(made) is kind)
    advance(copy)
    return copy


def advance(iterator: Any, steps: int | None = None) -> None:
    """Take some of what an iterator gives, or all of it."""
    for _ in itertools.islice(iterator, steps):
        pass


def is_exhausted(iterator: Any) -> bool:
    """Return whether an iterator has let go of its sequence: it gives nothing more, also when that grows."""
    return len(iterator.__reduce__()) == 2


def is_within(iterator: Any) -> bool:
    """Return whether another iterator over its sequence can be set to its place: places beyond the end are cut."""
    function, arguments, *state = iterator.__reduce__()
    if not state or state[0] is None:
        return True
    another = function(*arguments)
    another.__setstate__(state[0])
    return place_of(another) == state[0]


def _import_exhausted(world: World, value: Any, origin: Origin) -> Any:
    """Another one of its type that is exhausted.  The empty sequence that it shows is made when it is asked, so that is
    nothing to know it by.
    """
    copy = exhausted(type(value))
    world.guard(origin, "TYPE", type(value))
    world.guard(origin.to("ask", is_exhausted), "EQ", True)
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, place_of(value)))
    return copy


def import_iterator(world: World, value: Any, origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> Any:
    """Import an iterator; None where captured code does not see its sequence as itself."""
    if is_exhausted(value):
        return _import_exhausted(world, value, origin)
    place, source = place_of(value), source_of(value)
    if type(value) is reversed and type(source) not in _TURNED:
        return None
    world.guard(origin.to("ask", is_exhausted), "EQ", False)
    inside = let_in(world, source, origin.to("ask", source_of))
    if type(inside) is Opaque or type(inside) is not type(source):
        return None
    world.guard(origin, "TYPE", type(value))
    world.guard(origin.to("ask", place_of), "EQ", place)
    copy = value.__reduce__()[0](inside)
    if type(copy) is not type(value) or not is_within(value):  # exhausted, it shows no sequence any more
        return None
    if value.__reduce__()[2:] != (None,):
        copy.__setstate__(place)  # also 0: a reversed one begins at the other end
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, place))
    return copy


_COUNTER = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")


def count_of(counter: Any) -> int | None:
    """The number a counter gives next; None where that is no int.  Read off its text: CPython 3.14 has no other way."""
    found = _COUNTER.fullmatch(repr(counter))
    return int(found[1]) if found else None


def step_of(counter: Any) -> int:
    """By how much a counter counts."""
    found = _COUNTER.fullmatch(repr(counter))
    return int(found[2] or 1) if found else 0


def import_counter(world: World, value: Any, origin: Origin, let_in: Callable[[World, Any, Origin], Any]) -> Any:
    """Import a counter; None where it does not count in ints."""
    start, step = count_of(value), step_of(value)
    if start is None:
        return None
    world.guard(origin, "TYPE", itertools.count)
    seen = let_in(world, start, origin.to("ask", count_of))
    world.guard(origin.to("ask", step_of), "EQ", step)
    copy = itertools.count(seen, step)
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, (seen, step)))
    return copy

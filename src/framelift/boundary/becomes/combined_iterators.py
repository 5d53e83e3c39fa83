"""External iterators over other iterators: zip, map and filter; enumerate, islice and chain.

The first three hold nothing but iterators, which come in as themselves.  The others keep count, and cannot be set
to a place: such a *stepper* owns what it walks (any other way there is opaque), and its original is advanced by
the steps that captured code took.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

from ...vocabulary.class_reads import module_of, name_of
from ...vocabulary.origins import Origin
from ...vocabulary.quiet_capture import quietly
from ..records import Shadow
from ..world import World
from .iterators import SEQUENCE_ITERATORS, count_of, exhausted, is_exhausted, place_of, source_of, step_of
from .opaque import opaque_for

LetIn = Callable[[World, Any, Origin], Any]

HOLDERS: tuple[type, ...] = (zip, map, filter)
STEPPERS: tuple[type, ...] = (enumerate, itertools.islice, itertools.chain)
_INNER = (*SEQUENCE_ITERATORS, *HOLDERS, *STEPPERS, itertools.count)
#: sequences whose walk runs no code, and which a step leaves as they are
_PLAIN = (list, tuple, str, bytes, range)


def _reduced(iterator: Any) -> tuple[Any, ...]:
    """Return the parts of an iterator, as its `__reduce__` gives them."""
    if module_of(type(iterator)) != "itertools":
        return iterator.__reduce__()
    with quietly():  # CPython 3.12 warns that this way is deprecated
        return iterator.__reduce__()


# ---- zip, map, filter -----------------------------------------------------------------------------------------------


def parts_of(holder: Any) -> tuple[Any, ...]:
    """The function, if any, and the iterators."""
    return _reduced(holder)[1]


def is_strict(holder: Any) -> bool:
    """Return whether a zip was asked to be strict."""
    return len(_reduced(holder)) > 2


def import_holder(world: World, value: Any, origin: Origin, let_in: LetIn) -> Any:
    """The same over what is seen of its iterators; None where those, or its function, are not known."""
    kind, parts = type(value), parts_of(value)
    functions = 0 if kind is zip else 1
    if functions and not _is_watched(kind, parts[0]) or not all(type(part) in _INNER for part in parts[functions:]):
        return None
    strict = is_strict(value)
    world.guard(origin, "TYPE", kind)
    world.guard(origin.to("ask", is_strict), "EQ", strict)
    world.guard(origin.to("ask", parts_of), "LEN", len(parts))
    seen = [let_in(world, part, origin.to("ask", parts_of).to("item", i)) for i, part in enumerate(parts)]
    if not all(type(one) is type(part) for one, part in zip(seen, parts)):
        return None
    return world.register(value, zip(*seen, strict=True) if strict else kind(*seen), origin)


def _is_watched(kind: type, function: Any) -> bool:
    """Return whether a call of it from C is seen: Python code."""
    if type(function) is types.MethodType:
        function = function.__func__
    return type(function) is types.FunctionType or kind is filter and function is None


# ---- enumerate, islice, chain ---------------------------------------------------------------------------------------


def _inner(stepper: Any) -> tuple[Any, ...]:
    """The iterators that a stepper holds."""
    reduced = _reduced(stepper)
    if type(stepper) is itertools.chain:
        return reduced[2] if len(reduced) > 2 else ()
    # one that ended gives an iterator made for this question
    return () if type(stepper) is itertools.islice and len(reduced[1]) == 2 else reduced[1][:1]


def _counts(stepper: Any) -> tuple[Any, ...]:
    """The numbers that a stepper holds."""
    reduced = _reduced(stepper)
    return () if type(stepper) is itertools.chain else (*reduced[1][1:], *reduced[2:])


def stands_at(iterator: Any) -> tuple[Any, ...]:
    """Where an iterator stands, down to the sequences it walks."""
    kind = type(iterator)
    if kind in STEPPERS:
        return (name_of(kind), _counts(iterator), *map(stands_at, _inner(iterator)))
    if kind is itertools.count:
        return "count", count_of(iterator), step_of(iterator)
    if kind in SEQUENCE_ITERATORS:
        return name_of(kind), place_of(iterator), is_exhausted(iterator)
    return (None,)


def owned(stepper: Any) -> tuple[Any, ...]:
    """All iterators below a stepper."""
    inner = _inner(stepper)
    return inner + tuple(one for part in inner if type(part) in STEPPERS for one in owned(part))


def walked(iterator: Any) -> tuple[Any, ...]:
    """The sequences below a stepper."""
    if type(iterator) in STEPPERS:
        return tuple(one for part in _inner(iterator) for one in walked(part))
    return () if type(iterator) is itertools.count or is_exhausted(iterator) else (source_of(iterator),)


def rebuilt(iterator: Any, sequences: Iterator[Any]) -> Any:
    """A copy of an iterator, over other sequences."""
    kind = type(iterator)
    if kind is itertools.count:
        return itertools.count(count_of(iterator), step_of(iterator))
    if kind not in STEPPERS:
        if is_exhausted(iterator):
            return exhausted(kind)
        copy: Any = iterator.__reduce__()[0](next(sequences))
        copy.__setstate__(place_of(iterator))
        return copy
    inner = [rebuilt(part, sequences) for part in _inner(iterator)]
    counts = _counts(iterator)
    if kind is enumerate:
        return enumerate(inner[0], counts[0])
    if not inner:
        next(copy := itertools.chain() if kind is itertools.chain else itertools.islice((), 0), None)
        return copy
    copy = itertools.chain() if kind is itertools.chain else itertools.islice(inner[0], *counts[:3])
    with quietly():
        if kind is itertools.islice:
            copy.__setstate__(counts[-1])
        elif inner:
            copy.__setstate__(tuple(inner))
    return copy


def import_stepper(world: World, value: Any, origin: Origin, let_in: LetIn) -> Any:
    """A copy at the same place; None where what it walks is not known, or is reached in another way too."""
    below, place = owned(value), stands_at(value)
    if not _is_known(value) or any(id(one) in world.memo for one in below):
        return None
    sources = walked(value)
    world.guard(origin, "TYPE", type(value))
    world.guard(origin.to("ask", stands_at), "EQ", place)
    for i, one in enumerate(below):
        world.register(one, opaque_for(one), origin.to("ask", owned).to("item", i))
    inside = tuple(let_in(world, source, origin.to("ask", walked).to("item", i)) for i, source in enumerate(sources))
    if not all(type(seen) is type(source) for seen, source in zip(inside, sources)):
        return None
    copy = rebuilt(value, iter(inside))
    if not _is_known(copy) or stands_at(copy) != place:
        return None
    world.register(value, copy, origin)
    world.add_shadow(Shadow(copy, value, origin, inside))
    return copy


def _is_known(iterator: Any) -> bool:
    """Return whether steps of it run no code and show in `stands_at`."""
    kind = type(iterator)
    if kind is itertools.count:
        return count_of(iterator) is not None
    if kind in SEQUENCE_ITERATORS:
        return is_exhausted(iterator) or type(source_of(iterator)) in _PLAIN
    if kind is itertools.chain:
        rest = [
            item for source in _inner(iterator)[:1] if type(source) in SEQUENCE_ITERATORS for item in source_of(source)
        ]
        if not all(type(item) in _PLAIN for item in rest):
            return False
    return kind in STEPPERS and all(map(_is_known, _inner(iterator)))

"""An external `functools.lru_cache` that is asked by numbers that differ from call to call: sizes that are symbolic.

Captured code runs the function that the cache is for.  For the numbers of a later call the cache may hold something
else than that: from when the function read other values, or changed since by whoever was given it.  So a guard looks
into the table at each call, and compares what is there with what the captured code computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..._core import id
from ...boundary.records import KeptResult
from ...graph.symbols.meanings import FromNumber, FromSize
from ...graph.symbols.numbers import Int
from ...recording.known_values import guard_together
from ...recording.relations_of_values import Taken, as_function, sources_of, taken
from ...vocabulary.reasons import Interrupt
from .cache_tables import (
    NO_ANSWER,
    answer_of,
    ask_in_order,
    can_be_asked,
    check_room,
    equals_itself_alone,
    has_room,
    is_plain,
    lookup_of,
)
from .cached_objects import ASKED, CannotSee, filled, has_changes, keep_objects, looks_as, picture_with_numbers

if TYPE_CHECKING:
    from ...recording.session import Session
    from ...vocabulary.origins import Origin


@dataclass(frozen=True, slots=True, eq=False)
class _Formula:
    """A symbolic number: a function of the numbers outside that `places` name."""

    function: Callable[..., Any]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """An external object that equals itself alone, by its place among those."""

    place: int


class _Numbers:
    """The symbolic numbers that are met, by the names of the symbols they are made of, and the external objects."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.names: list[str] = []
        self.origins: list[Origin] = []
        self.objects: list[Any] = []

    def formula(self, number: Any) -> _Formula:
        symbols = self.session.recorder.symbols
        if type(number) is not Int or symbols is None:
            raise CannotSee
        own: list[str] = []
        function = as_function(number, own)
        if function is None or any(type(symbols.meanings.get(name)) not in (FromSize, FromNumber) for name in own):
            raise CannotSee
        self.names += [name for name in own if name not in self.names]
        return _Formula(function, tuple([self.names.index(name) for name in own]))

    def argument(self, value: Any) -> Any:
        """An argument of the cache, with formulas in place of symbolic numbers."""
        world = self.session.world
        if type(value) is Int:
            return self.formula(value)
        if is_plain(value):
            return value
        if type(value) in (tuple, torch.Size):
            return tuple([self.argument(part) for part in value])
        record = world.by_seen.get(id(value))
        if record is not None and equals_itself_alone(type(record.original)):
            self.origins.append(record.origin)
            self.objects.append(record.original)
            return _Given(len(self.objects) - 1)
        kept = lookup_of(world, value)
        if kept is None:
            raise CannotSee
        return kept


class _HoldsNothingElse:
    """The check of a guard: a cache holds no answer for the numbers of a call, or one that looks as in the picture."""

    def __init__(
        self, wrapper: Any, args: Sequence[Any], names: tuple[str, ...], picture: Any, objects: int, numbers: Taken
    ) -> None:
        self.wrapper, self.args, self.names, self.picture = wrapper, args, names, picture
        self.objects, self.numbers = objects, numbers

    def __call__(self, *values: Any) -> bool:
        numbers = taken(self.numbers, values[self.objects :])

        def number(part: Any) -> Any:
            if type(part) is tuple:
                return tuple(map(number, part))
            if type(part) is _Given:
                return values[part.place]
            return part.function(*[numbers[i] for i in part.places]) if type(part) is _Formula else part

        found = answer_of(self.wrapper, tuple(map(number, self.args)), self.names)
        if found is NO_ANSWER:
            return has_room(self.wrapper, 1)
        return looks_as(filled(self.picture, number), found)


def keep_by_numbers(
    session: Session, wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, is_value: bool
) -> bool:
    """Return whether the function of a cache may be captured, which gave this result; guarded, for all numbers.

    The cache is asked for real when the frame ran, and keeps what its function gives then.
    """
    numbers = _Numbers(session)
    if not can_be_asked(wrapper):
        return False
    try:
        asked = [numbers.argument(value) for value in (*args, *kwargs.values())]
        picture = picture_with_numbers(session, result, numbers.formula)
    except CannotSee:
        return False
    found = sources_of(session, {}, numbers.names) if numbers.names else None
    if found is None:
        return False
    places, held, takes = found
    world = session.world
    check_room(world, wrapper)
    ask_in_order(session, numbers.origins, picture)
    check = _HoldsNothingElse(wrapper, asked, tuple(kwargs), picture, len(numbers.objects), takes)
    if not check(*numbers.objects, *held):
        raise Interrupt("unknown-callable", "a function under functools.lru_cache that keeps another result")
    # each question has a guard of its own
    places = [*numbers.origins, *places]
    guard_together(world, places, check, "holds no other answer for these numbers", f"cache {id(check)}")
    world.keep += (check,)
    if not is_value:
        keep_objects(session, KeptResult(wrapper, args, kwargs, has_changes(session), None), result)
    world.write(ASKED, wrapper, len(world.effects), (args, kwargs))
    return True

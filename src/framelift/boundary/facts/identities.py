"""Identity of external immutable values: the same value may be one object in this call and two in the next.

Guards on leaves compare values, and few programs ask for more.  Where one asks whether two equal values are one
object (`is`, `id`), the answer becomes a fact: all places that hold the object are found among the guards made so
far, and are guarded to hold one object; places of two objects, to hold different ones; places whose object
captured code also holds as a constant, to hold that very object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ... import _core
from ...guards.equality import indistinguishable
from ...vocabulary.feature_state import FeatureState
from ...vocabulary.origins import Origin
from ...vocabulary.shown_values import shown_value
from ..becomes.leaves import is_leaf
from ..world import World

#: a place of an object: where it is, and how it lies there ("value", "key" of the dictionary there, "inside" of the
#: frozenset there)
Place = tuple[Origin, str]


class Identities:
    """The places of the leaves of one rehearsal, by identity; built only when a program compares identities."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._guards = 0  # how many guards of the world were looked at
        self._places: dict[int, list[Place]] = {}  # id of an object that a guard holds -> its places
        self.pinned: set[Origin] = set()  # places that are guarded to hold one object, not one value
        self._code: set[int] = set()
        self._constants: set[int] = set()  # ids of constants of the code that ran

    def same(self, left: Any, right: Any) -> bool:
        """Return whether two values are one object, as a fact."""
        if is_leaf(left):
            if indistinguishable(left, right):
                self._settle(left, right)
        elif left is not right:
            first, second = (self._world.by_seen.get(id(one)) for one in (left, right))
            self._world.distinct += [one.origin for one in (first, second) if one is not None]
        return left is right

    def pin(self, value: Any) -> bool:
        """The places of a leaf hold this very object from now on.  False: it has none."""
        places = self._find(value)
        for place in places:
            self._fix(place, value)
        return bool(places)

    def _settle(self, left: Any, right: Any) -> None:
        """Two leaves of one value."""
        found = [(value, self._find(value)) for value in ((left,) if left is right else (left, right))]
        constant = any(self.is_code_constant(value) for value, _ in found)
        if constant or any(how != "value" for _, places in found for _, how in places):
            if constant or sum(len(places) for _, places in found) > 1:
                for value, places in found:
                    for place in places:
                        self._fix(place, value)
            return
        for _, places in found:
            for origin, _ in places[1:]:
                self._world.guard(origin, "SAME", places[0][0])
        if len(found) == 2 and all(places for _, places in found):
            self._world.distinct += [places[0][0] for _, places in found]

    def _fix(self, place: Place, value: Any) -> None:
        origin, how = place
        if how == "value":
            self.pinned.add(origin)
            self._world.guard(origin, "IS", value)
        elif how == "key":
            self._world.guard(origin, "HAS_KEY", value, id(value))
        else:
            self._world.guard(
                origin,
                "CHECK",
                (lambda now: any(item is value for item in now), f"has this {shown_value(value)} in it"),
                id(value),
            )
            self._world.keep.append(value)

    def _find(self, value: Any) -> list[Place]:
        guards = self._world.guards
        for guard in guards[self._guards :]:
            if guard.kind == "EQ":
                self._note(guard.value, guard.origin)
            elif guard.kind == "KEYS":
                self._note_all(guard.value, guard.origin, "key")
        self._guards = len(guards)
        return self._places.get(id(value), [])

    def _note(self, value: Any, origin: Origin) -> None:
        self._places.setdefault(id(value), []).append((origin, "value"))
        if type(value) is tuple:
            for i, item in enumerate(value):
                self._note(item, origin.to("item", i))
        elif type(value) is frozenset:
            self._note_all(value, origin, "inside")

    def _note_all(self, values: Iterable[Any], origin: Origin, how: str) -> None:
        for value in values:
            self._places.setdefault(id(value), []).append((origin, how))

    def is_code_constant(self, value: Any) -> bool:
        """Return whether `value` is a constant of code that ran."""
        for code, *_ in _core.rehearsed_code():
            if id(code) not in self._code:
                self._code.add(id(code))
                self._constants.update(map(id, _flat(code.co_consts)))
        return id(value) in self._constants


def _flat(constants: Iterable[Any]) -> Iterator[Any]:
    for value in constants:
        yield value
        if type(value) in (tuple, frozenset):
            yield from _flat(value)


IDENTITIES = FeatureState(Identities)

"""State that one feature keeps for the length of a rehearsal, under the type that the feature gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class HasFeatures(Protocol):
    """A rehearsal, as features know it."""

    features: dict[Any, Any]


class FeatureState(Generic[T]):
    """The key of a feature's state; `make` makes it for a rehearsal that has none yet.

    >>> class Rehearsal:
    ...     features = {}
    >>> NAMES = FeatureState(list)
    >>> NAMES.found(Rehearsal) is None, NAMES.of(Rehearsal), NAMES.found(Rehearsal)
    (True, [], [])
    """

    def __init__(self, make: Callable[..., T]) -> None:
        self.make = make

    def of(self, rehearsal: HasFeatures, *args: Any) -> T:
        """Return the state of this rehearsal, made of these arguments when it is first asked for."""
        state: T | None = rehearsal.features.get(self)
        if state is None:
            state = rehearsal.features[self] = self.make(*args)
        return state

    def found(self, rehearsal: HasFeatures) -> T | None:
        """Return the state if there is one."""
        return rehearsal.features.get(self)

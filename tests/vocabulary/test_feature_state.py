"""The state of a feature belongs to one rehearsal."""

from __future__ import annotations

from typing import Any

from framelift.vocabulary.feature_state import FeatureState


class Rehearsal:
    def __init__(self) -> None:
        self.features: dict[Any, Any] = {}


def test_each_rehearsal_has_its_own_state() -> None:
    names: FeatureState[list[str]] = FeatureState(list)
    first, second = Rehearsal(), Rehearsal()
    names.of(first).append("a")
    assert names.of(first) == ["a"] and names.found(second) is None and names.of(second) == []


def test_the_state_is_made_once_of_the_arguments_given_first() -> None:
    pairs = FeatureState(lambda *args: list(args))
    rehearsal = Rehearsal()
    assert pairs.of(rehearsal, 1, 2) is pairs.of(rehearsal, 3) and pairs.of(rehearsal) == [1, 2]


def test_two_features_of_one_type_are_two() -> None:
    one, other = FeatureState(list), FeatureState(list)
    rehearsal = Rehearsal()
    assert one.of(rehearsal) is not other.of(rehearsal)

"""Attributes of external functions, and of methods.

Written, deleted, read again; and names that decorators give.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2)


def noted(x: Any) -> Any:
    return x


def named(x: Any) -> Any:
    noted.__name__ = "other"
    noted.__module__ = "elsewhere"
    return x + 1, noted.__name__, noted.__module__, dict(noted.__dict__), getattr(noted, "__name__")


def deleted(x: Any) -> Any:
    noted.mark = 3  # type: ignore[attr-defined]
    before = noted.mark  # type: ignore[attr-defined]
    del noted.mark  # type: ignore[attr-defined]
    try:
        noted.mark  # type: ignore[attr-defined]
    except AttributeError as error:
        said = str(error)
    return x + before, said, hasattr(noted, "mark")


def deleted_from_outside(x: Any) -> Any:
    del noted.left  # type: ignore[attr-defined]
    try:
        del noted.left  # type: ignore[attr-defined]
    except AttributeError as error:
        return x + 1, str(error), hasattr(noted, "left")
    return x


def nothing_to_delete(x: Any) -> Any:
    try:
        del noted.nothing  # type: ignore[attr-defined]
    except AttributeError as error:
        return x + 1, str(error)
    return x - 1


class Thing:
    def method(self) -> Any:
        return 1


def of_a_method(x: Any) -> Any:
    said = []
    for name in ("__self__", "__func__", "other"):
        try:
            delattr(Thing().method, name)
        except (AttributeError, TypeError) as error:
            said.append(type(error))
    thing = Thing()
    try:
        del thing.method.other  # type: ignore[attr-defined]
    except AttributeError as error:
        said.append(str(error))
    return x + 1, said


def test_names() -> None:
    before = noted.__name__, noted.__module__
    compiled = framelift.compile(named, backend="eager", fullgraph=True)
    try:
        for _ in range(2):
            noted.__name__, noted.__module__ = before
            want = named(X)
            noted.__name__, noted.__module__ = before
            got = compiled(X)
            assert want[1:] == got[1:] and torch.equal(want[0], got[0])
            assert (noted.__name__, noted.__module__) == ("other", "elsewhere") and not noted.__dict__
    finally:
        noted.__name__, noted.__module__ = before


@pytest.mark.parametrize("program", [deleted, nothing_to_delete, of_a_method])
def test_programs(program: Any) -> None:
    check(program, X)


def test_an_attribute_from_outside_is_deleted() -> None:
    compiled = framelift.compile(deleted_from_outside, backend="eager", fullgraph=True)
    for _ in range(2):
        noted.left = 1  # type: ignore[attr-defined]
        want = deleted_from_outside(X)
        noted.left = 1  # type: ignore[attr-defined]
        got = compiled(X)
        assert want[1:] == got[1:] and not hasattr(noted, "left")
    with pytest.raises(AttributeError):
        compiled(X)


def test_an_attribute_that_comes_to_be() -> None:
    compiled = framelift.compile(nothing_to_delete, backend="eager")
    assert torch.equal(compiled(X)[0], X + 1)
    noted.nothing = 1  # type: ignore[attr-defined]
    assert torch.equal(compiled(X), X - 1) and not hasattr(noted, "nothing")


class _Slotted:
    __slots__ = ("__dict__", "other", "slot")


SLOTTED = _Slotted()


def slots_are_no_entries(x: Any) -> Any:
    SLOTTED.slot, SLOTTED.entry = 1, 2  # type: ignore[attr-defined]
    found = "slot" in SLOTTED.__dict__, vars(SLOTTED).get("slot"), len(vars(SLOTTED))
    del SLOTTED.slot
    return x + 1, found, hasattr(SLOTTED, "slot"), dict(vars(SLOTTED))


def test_slots_are_no_entries_of_the_dictionary() -> None:
    check(slots_are_no_entries, X)


def test_an_entry_beside_a_slot() -> None:
    def program(x: Any) -> Any:
        SLOTTED.other = 1
        SLOTTED.__dict__["other"] = 2
        return x + SLOTTED.other, SLOTTED.__dict__["other"]

    compiled = framelift.compile(program, backend="eager")
    got = compiled(X)
    assert torch.equal(got[0], X + 1) and got[1] == 2


class _Plain:
    def __init__(self) -> None:
        self.first, self.second = 1, 2


def deleted_and_written(x: Any, thing: Any) -> Any:
    value = thing.first
    del thing.first
    thing.third = 3
    thing.first = value
    return x + value, list(thing.__dict__), next(iter(vars(thing).items()))


def through_the_dictionary(x: Any, thing: Any) -> Any:
    table = thing.__dict__
    value = table.pop("first")
    table["third"] = 1
    table["first"] = value
    return x + value, list(table), len(table)


@pytest.mark.parametrize("program", [deleted_and_written, through_the_dictionary])
def test_what_is_written_again_comes_last(program: Any) -> None:
    check(program, X, _Plain(), calls=1)


def counting() -> Any:
    yield 1


def test_what_a_generator_is_called() -> None:
    def program(x: Any) -> Any:
        counting.__name__ = "other"
        return x + 1, counting().__name__, counting.__name__

    check(program, X, graphs=None, breaks=None, state=[(counting, "__name__")])


def test_attributes_that_stay_as_they_are() -> None:
    def program(x: Any) -> Any:
        said = []
        for name in ("__name__", "__qualname__", "__globals__", "__closure__", "__builtins__"):
            for change in (lambda: setattr(noted, name, 7), lambda: delattr(noted, name)):
                try:
                    change()
                except (TypeError, AttributeError) as error:
                    said.append((type(error), str(error)))
        return x + 1, said

    check(program, X)

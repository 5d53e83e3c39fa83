"""The journal of pending changes, and what the world keeps of functions, without a rehearsal."""

from __future__ import annotations

import types

import pytest

from framelift.boundary.facts.known_functions import KnownFunctions
from framelift.boundary.records import Journal
from framelift.vocabulary.origins import arg
from framelift.vocabulary.reasons import Interrupt


class Base:
    pass


def test_a_journal_keeps_the_order_and_can_be_cut_back() -> None:
    journal = Journal()
    for name in "ab":
        journal.write("setattr", journal, name, 1)
    assert [one.key for one in journal] == ["a", "b"]
    journal[1:] = []
    assert [one.key for one in journal] == ["a"]


def test_attributes_of_which_a_view_was_taken_are_not_written() -> None:
    journal, owner = Journal(), Base()
    journal.viewed.add(id(owner))
    with pytest.raises(Interrupt, match="__dict__ of a Base"):
        journal.write("setattr", owner, "a", 1)
    journal.write("setitem", owner, "a", 1)


def _function() -> types.FunctionType:
    return lambda: None


def test_a_function_guarded_by_its_code_is_guarded_to_be_no_constant_of_that_code() -> None:
    distinct: list[object] = []
    functions = KnownFunctions(distinct)
    constant, other = _function(), _function()
    functions.meet(constant, arg(0, "f"))
    functions.guard_by_code(other, arg(1, "g"))
    assert distinct == [arg(0, "f")] and functions.constants_of(other) == {id(constant): arg(0, "f")}
    with pytest.raises(Interrupt, match="as one that is a key"):
        functions.meet_key((_function(),))

"""Which classes and functions guards name: texts of errors are about these."""

from __future__ import annotations

import types

from framelift import _core
from framelift.guards.kinds import Guard, dunders
from framelift.vocabulary.origins import arg, const


class Thing:
    @staticmethod
    def made() -> None:
        pass

    def __len__(self) -> int:
        return 1


def function() -> None:
    pass


def test_classes_and_functions_are_found_in_their_order_and_once() -> None:
    x, bound = arg(0, "x"), Thing().__len__
    guards = [
        Guard(x, "EQ", "text"),
        Guard(x, "TYPE", Thing),
        Guard(const(function).to("attr", "__name__"), "EQ", "function"),
        Guard(x.to("item", "a"), "IS", Thing),
        Guard(const(types), "TYPE", types.ModuleType),
        Guard(x, "IS", bound),
        Guard(x, "IS", vars(Thing)["made"]),
    ]
    found = _core.named_by_guards(guards, 0)
    assert found == [Thing, function, types.ModuleType, bound, vars(Thing)["made"]]
    assert _core.named_by_guards(guards, 3) == found[:1] + found[2:]
    assert _core.named_by_guards(guards, len(guards)) == []


def test_special_methods_are_named_by_the_guard_on_their_class() -> None:
    (_, *methods) = _core.named_by_guards([Guard(const(Thing), "DUNDERS", dunders(Thing))], 0)
    assert methods == [Thing.__len__]

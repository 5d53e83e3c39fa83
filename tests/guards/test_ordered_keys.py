"""Guards on the keys of an OrderedDict: its order changes without a new version, and is part of a settled program."""

import collections

import pytest
import torch

import framelift


class Table(collections.OrderedDict):
    """As transformers' table of activations: a subclass with its own way of reading items."""

    def __getitem__(self, key):
        return super().__getitem__(key) + 0

    def __repr__(self) -> str:  # C code's would name the class, and a guard on its name is asked at each call
        return "Table()"


_CHANGES = {
    "move to the end": lambda table: table.move_to_end("a"),
    "move to the beginning": lambda table: table.move_to_end("c", last=False),
    "and back": lambda table: (table.move_to_end("c", last=False), table.move_to_end("c")),
    "add": lambda table: table.update(d=4),
    "take out": lambda table: table.pop("b", None),
    "take out and in": lambda table: table.update(a=table.pop("a")),
    "past the class": lambda table: dict.__setitem__(table, "a", 7),
    "another value": lambda table: table.update(b=9),
    "clear": lambda table: table.clear(),
}


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("cls", [collections.OrderedDict, Table])
def test_changes(cls, change) -> None:
    table = cls(a=1, b=2, c=3)

    def function(x):
        for key, value in table.items():
            x = x * 2 + value if key != "b" else x - value
        return x, list(table)

    def same() -> None:
        (one, keys), (other, expected) = compiled(x), function(x)
        assert torch.equal(one, other) and keys == expected

    x = torch.arange(3.0)
    compiled = framelift.compile(function, backend="eager")
    for _ in range(12):
        same()
    program = compiled.entries[0].program
    assert not program.unsettled()
    visits = program.stats()["visits"]
    compiled(x)
    assert program.stats()["visits"] == visits
    for _ in range(3):
        _CHANGES[change](table)
        same()
        same()


def test_one_key_and_none() -> None:
    for fields in ({}, {"a": 1}):
        table = collections.OrderedDict(fields)
        function = lambda x: x + sum(table.values()) + len(table)  # noqa: B023, E731
        compiled, x = framelift.compile(function, backend="eager"), torch.ones(2)
        for _ in range(12):
            assert torch.equal(compiled(x), function(x))
        table["b"] = 5
        assert torch.equal(compiled(x), function(x))
        table.move_to_end("b", last=False)
        assert torch.equal(compiled(x), function(x))

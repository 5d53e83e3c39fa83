"""Ordered dictionaries: read, changed, given back and made inside, of the built-in type and of a subclass."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from support import World, check

X = torch.ones(2)


class Table(OrderedDict):  # type: ignore[type-arg]
    """It hides what it has from those that ask the class."""

    def __iter__(self) -> Any:
        return iter("zyx")

    def __len__(self) -> int:
        return 7


@pytest.mark.parametrize("make", [OrderedDict, Table])
@pytest.mark.parametrize(
    "read",
    [
        lambda d: d["a"],
        lambda d: d.get("absent", 5),
        len,
        list,
        lambda d: list(d.items()),
        lambda d: "b" in d,
        lambda d: d == OrderedDict(b=2, a=1, c=3),
        lambda d: next(reversed(d)),
        lambda d: d.values(),
    ],
)
def test_reads(make: Any, read: Any) -> None:
    def change(number: int, world: World) -> None:
        if number == 2:
            OrderedDict.move_to_end(world.args[1], "a")
        elif number == 3:
            OrderedDict.__setitem__(world.args[1], "a", 9)

    def program(x: torch.Tensor, d: Any) -> Any:
        return x + 1, read(d)

    check(program, X, make([("a", 1), ("b", 2), ("c", 3)]), calls=4, mutate=change, graphs=None, breaks=None)


CHANGES: dict[str, Any] = {
    "new": lambda d, x: d.__setitem__("n", x),
    "another value": lambda d, x: d.__setitem__("b", x),
    "deleted": lambda d, x: d.__delitem__("a"),
    "moved to the end": lambda d, x: d.move_to_end("a"),
    "moved to the beginning": lambda d, x: d.move_to_end("c", last=False),
    "first out": lambda d, x: d.popitem(last=False),
    "last out": lambda d, x: d.popitem(),
    "clear": lambda d, x: d.clear(),
    "update": lambda d, x: d.update({"a": x, "z": 1}),
    "in place": lambda d, x: d.__ior__(OrderedDict(q=x)),
    "nothing": lambda d, x: (d.move_to_end("a"), d.move_to_end("b"), d.move_to_end("c")),
}


@pytest.mark.parametrize("make", [OrderedDict, type("Plain", (OrderedDict,), {})])
@pytest.mark.parametrize("name", CHANGES)
def test_changes(make: Any, name: str) -> None:
    change = CHANGES[name]

    def program(x: torch.Tensor, d: Any) -> torch.Tensor:
        change(d, x + 1)
        return x * 2

    check(program, X, make([("a", 1), ("b", 2), ("c", 3)]), calls=1)


def test_made_inside() -> None:
    class Named(OrderedDict):  # type: ignore[type-arg]
        pass

    def program(x: torch.Tensor) -> Any:
        plain, noted, cyclic = OrderedDict(a=x + 1, b=2), OrderedDict(a=1), OrderedDict(a=1)
        noted.note = "n"  # type: ignore[attr-defined]
        cyclic["self"] = cyclic
        named, full = Named(a=x), Named(a=1)
        full.name = x  # type: ignore[attr-defined]
        return plain, noted, cyclic, named, full, OrderedDict(), plain.items(), plain.keys()

    check(program, X)

"""Deques: read, changed, given back and made inside, of the built-in type and of a subclass, as in plain Python."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import pytest
import torch
from support import World, check

X = torch.ones(2)


class Window(deque):  # type: ignore[type-arg]
    """It hides what it has from those that ask the class."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: Any) -> Any:
        return 100


@pytest.mark.parametrize("make", [deque, Window])
@pytest.mark.parametrize(
    "read",
    [
        lambda d: d[0],
        lambda d: d[-1],
        len,
        lambda d: d.maxlen,
        list,
        lambda d: 2 in d,
        lambda d: d.count(1),
        lambda d: d == deque([1, 2, 3], 4),
        lambda d: [*reversed(d)],
        lambda d: d.copy(),
        bool,
    ],
)
def test_reads(make: Any, read: Any) -> None:
    def change(number: int, world: World) -> None:
        if number == 2:
            world.args[1][2] = 5
        elif number == 3:
            world.args[1].append(9)

    def program(x: torch.Tensor, d: Any) -> Any:
        return x + 1, read(d)

    check(program, X, make([1, 2, 3], 4), calls=4, mutate=change, graphs=None, captures=None, breaks=None)


CHANGES: dict[str, Any] = {
    "append": lambda d, x: d.append(x),
    "appendleft": lambda d, x: d.appendleft(x),
    "several": lambda d, x: d.extend([x, 1, x]),
    "several on the left": lambda d, x: d.extendleft([x, 1]),
    "pop": lambda d, x: d.pop(),
    "popleft": lambda d, x: (d.popleft(), d.popleft()),
    "clear": lambda d, x: d.clear(),
    "rotate": lambda d, x: d.rotate(1),
    "item": lambda d, x: d.__setitem__(1, x),
    "insert": lambda d, x: d.maxlen is None and d.insert(1, x),
    "remove": lambda d, x: d.remove(3),
    "reverse": lambda d, x: d.reverse(),
    "nothing": lambda d, x: d.rotate(3),
}


@pytest.mark.parametrize("make", [deque, lambda items: deque(items, 3), type("Plain", (deque,), {})])
@pytest.mark.parametrize("name", CHANGES)
def test_changes(make: Any, name: str) -> None:
    change = CHANGES[name]

    def program(x: torch.Tensor, d: Any) -> torch.Tensor:
        change(d, x + 1)
        return x * 2

    check(program, X, make([1, 2, 3]), calls=1)


def test_made_inside() -> None:
    class Named(deque):  # type: ignore[type-arg]
        pass

    def program(x: torch.Tensor) -> Any:
        plain, short, cyclic, named = deque([x + 1, 1]), deque((1, 2, 3), 2), deque([1], 3), Named([x], 4)
        cyclic.append(cyclic)
        named.name = "n"  # type: ignore[attr-defined]
        return plain, short, cyclic, named, deque(), defaultdict(deque)["absent"]

    check(program, X)


def test_a_length_that_changes() -> None:
    def change(number: int, world: World) -> None:
        world.args[1].append(number)

    def program(x: torch.Tensor, d: Any) -> Any:
        d.append(x)
        return x + len(d), d[0], d[-1], d.maxlen

    check(program, X, deque([1, 2, 3]), calls=6, mutate=change, graphs=None, captures=None)


def test_external_factory() -> None:
    def program(x: torch.Tensor, table: Any) -> Any:
        table["a"].append(x)
        return x + 1

    check(program, X, defaultdict(deque), calls=1)


def test_a_pattern_takes_it_for_a_sequence() -> None:
    def program(x: torch.Tensor, d: Any) -> Any:
        match d:
            case [first, *_]:
                return x + first
        return x

    check(program, X, deque([1, 2]))

"""Arrays of numbers: read, changed, given back and made inside, of the built-in type and of a subclass."""

from __future__ import annotations

import array
from typing import Any

import pytest
import torch
from support import World, check

X = torch.ones(2)


class Signal(array.array):  # type: ignore[type-arg]
    """It hides what it has from those that ask the class."""

    def __len__(self) -> int:
        return 7

    def tobytes(self) -> bytes:
        return b"none of yours"


@pytest.mark.parametrize("make", [array.array, Signal])
@pytest.mark.parametrize(
    "read",
    [
        lambda a: a[1],
        lambda a: a[1:],
        lambda a: list(a[::-1]),
        lambda a: a.typecode,
        lambda a: a.itemsize,
        lambda a: 2 in a,
        lambda a: a.count(1),
        lambda a: a == array.array("i", [1, 2, 3]),
        sum,
        len,
    ],
)
def test_reads(make: Any, read: Any) -> None:
    def change(number: int, world: World) -> None:
        array.array.__setitem__(world.args[1], 1, number)

    check(lambda x, a: (x + 1, read(a)), X, make("i", [1, 2, 3]), calls=3, mutate=change, graphs=None)


@pytest.mark.parametrize("make", [array.array, Signal])
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(0, 9),
        lambda a: a.__setitem__(slice(1, 3), array.array("i", [7, 8])),
        lambda a: a.reverse(),
        lambda a: a.byteswap(),
    ],
)
def test_changes(make: Any, write: Any) -> None:
    def program(x: torch.Tensor, a: Any) -> Any:
        write(a)
        return x + 1, a, a[0]

    check(program, X, make("i", [1, 2, 3]), graphs=None, captures=2)


def test_another_length_is_a_graph_break() -> None:
    def program(x: torch.Tensor, a: Any) -> Any:
        a.append(4)
        return x + a[-1], a

    check(program, X, array.array("i", [1, 2, 3]), graphs=None, breaks=None)


def test_another_type_code() -> None:
    def change(number: int, world: World) -> None:
        world.args[1] = array.array("h" if number == 1 else "B", [1, 2])

    check(lambda x, a: x + a.itemsize, X, array.array("i", [1, 2]), calls=3, mutate=change, graphs=None)


@pytest.mark.parametrize("make", [array.array, Signal])
def test_made_inside(make: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        made = make("d", [0.5, 1.5])
        made.append(2.5)
        return x * made[2], made, made[:1]

    check(program, X)

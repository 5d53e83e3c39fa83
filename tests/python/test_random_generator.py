"""Generators of Python's `random` module: drawn from, given a state, given back and made inside."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from support import check

X = torch.ones(2)


class Dice(random.Random):
    def roll(self) -> int:
        return self.randint(1, 6)


USES: dict[str, Any] = {
    "drawn": lambda g: g.random(),
    "shuffled": lambda g: g.sample(range(9), 3),
    "seeded": lambda g: (g.seed(7), g.getrandbits(9)),
    "given a state": lambda g: g.setstate(random.Random(3).getstate()),
    "given its own state": lambda g: g.setstate(g.getstate()),
    "read": lambda g: g.getstate()[0],
}


@pytest.mark.parametrize("make", [random.Random, Dice])
@pytest.mark.parametrize("name", USES)
def test_external(make: Any, name: str) -> None:
    use = USES[name]

    def program(x: torch.Tensor, generator: Any) -> Any:
        return x + 1, use(generator)

    check(program, X, make(1), calls=3, graphs=None, breaks=None, captures=None)


def test_made_inside() -> None:
    def program(x: torch.Tensor) -> Any:
        plain, dice = random.Random(1), Dice(2)
        dice.name = "red"  # type: ignore[attr-defined]
        return x + plain.random() + dice.roll(), plain, dice

    check(program, X, graphs=None)

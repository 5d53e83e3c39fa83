"""External sets whose elements are objects compared by identity.

Asked, gone through, written, changed between calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support import World, check


class Own:
    def __init__(self, n: int) -> None:
        self.n = n


def objects() -> tuple[list[Own], set[Own]]:
    made = [Own(i) for i in range(5)]
    return made, set(made[:2])


def swap(number: int, world: World) -> None:
    """Another object in the place of one that is asked for; later the same objects in another set."""
    _, made, held = world.args
    if number == 1:
        made[0], made[2] = made[2], made[0]
    elif number == 2:
        made[1].n = 50
    elif number == 3:
        world.args[2] = set(held) if type(held) is set else frozenset(made[2:])


ASKED: dict[str, Callable[..., Any]] = {
    "in": lambda x, made, held: (x + 1, made[0] in held, made[2] in held),
    "len": lambda x, made, held: x * len(held),
    "read": lambda x, made, held: x * sum(o.n for o in held),
    "sorted": lambda x, made, held: x * sorted(held, key=lambda o: o.n)[0].n,
    "union": lambda x, made, held: x * len(held | {made[0], made[3]}),
    "intersection": lambda x, made, held: x * len(held & {made[0], made[3]}),
    "compared": lambda x, made, held: (x + 1, held == set(made[:2]), held <= set(made), held.isdisjoint({made[0]})),
    "an object made inside": lambda x, made, held: (x + 1, Own(1) in held),
}


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize("name", ASKED)
def test_asked(name: str, kind: type) -> None:
    made, held = objects()
    check(ASKED[name], torch.ones(1), made, kind(held), calls=5, mutate=swap, graphs=None)


def test_modules() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def f(x: torch.Tensor, layers: Any, skipped: set[torch.nn.Module]) -> torch.Tensor:
        for layer in layers:
            if layer not in skipped:
                x = layer(x)
        return x

    check(f, torch.ones(2, 2), layers, {layers[1]})


def discard(x: torch.Tensor, made: list[Own], held: set[Own]) -> Any:
    held.discard(made[0])
    return x * len(held)


def clear(x: torch.Tensor, made: list[Own], held: set[Own]) -> Any:
    held.clear()
    return x * len(held)


def add(x: torch.Tensor, made: list[Own], held: set[Own]) -> Any:
    held.add(made[3])
    return x * len(held), made[3] in held


def add_new(x: torch.Tensor, made: list[Own], held: set[Own]) -> Any:
    held.add(Own(len(held)))
    return x * len(held)


@pytest.mark.parametrize("fn", [discard, clear, add, add_new])
def test_written(fn: Callable[..., Any]) -> None:
    """One that grows is asked in plain Python from then on."""
    check(fn, torch.ones(1), *objects(), calls=5, mutate=swap, graphs=None, breaks=None, fullgraph=False)


def test_grows_outside() -> None:
    def grow(number: int, world: World) -> None:
        world.args[2].add(world.args[1][number])

    check(
        lambda x, made, held: (x * len(held), made[3] in held),
        torch.ones(1),
        *objects(),
        calls=5,
        mutate=grow,
        graphs=None,
        breaks=None,
        fullgraph=False,
    )


def test_no_text_of_the_objects_is_asked_for() -> None:
    class Silent(Own):
        def __repr__(self) -> str:
            raise AssertionError("asked")

    made = [Silent(1), Silent(2)]
    check(lambda x, made, held: (x * len(held), made[0] in held), torch.ones(1), made, set(made[:1]))

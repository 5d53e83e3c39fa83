"""Partial objects: called, read, written to, given back and made inside, as in plain Python."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from support import World, check

X = torch.ones(2)


def scaled(x: torch.Tensor, by: float = 1.0, *, plus: float = 0.0) -> torch.Tensor:
    return x * by + plus


class Named(functools.partial):  # type: ignore[type-arg]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) + 1


@pytest.mark.parametrize("make", [functools.partial, Named])
def test_made_inside(make: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        made = make(scaled, by=2.0)
        made.note = "n"
        return made(x, plus=1.0), made.func is scaled, made.keywords, made.note

    check(program, X)


def test_external_one_that_changes() -> None:
    def change(number: int, world: World) -> None:
        world.args[1] = functools.partial(scaled, by=number + 2.0) if number == 1 else functools.partial(torch.add, X)

    def program(x: torch.Tensor, p: Any) -> Any:
        return p(x), len(p.args), p.keywords

    check(program, X, functools.partial(scaled, plus=3.0), calls=3, mutate=change, graphs=None)


def test_writes_and_results() -> None:
    def program(x: torch.Tensor, p: Any) -> Any:
        p.keywords["plus"] = 2.0
        p.calls = getattr(p, "calls", 0) + 1
        return p(x), p, functools.partial(p, by=3.0)

    check(program, X, functools.partial(scaled, plus=3.0), graphs=None, captures=None, mutate=lambda i, w: None)

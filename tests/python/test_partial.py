"""Partial objects: called, read, written to, given back and made inside, as in plain Python."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import torch
from support import World, check

import framelift

X = torch.ones(2)


def scaled(x: torch.Tensor, by: float = 1.0, *, plus: float = 0.0) -> torch.Tensor:
    return x * by + plus


def listed(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


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


PLACEHOLDER = getattr(functools, "Placeholder", None)
OUTER = functools.partial(listed, PLACEHOLDER, 2, PLACEHOLDER, 4, plus=1.0)


class WithMethod:
    method = functools.partialmethod(lambda self, *args: args, PLACEHOLDER, 2)


@pytest.mark.skipif(PLACEHOLDER is None, reason="CPython 3.14 has them")
@pytest.mark.parametrize(
    "program",
    [
        lambda x, p: functools.partial(listed, PLACEHOLDER, 2)(x + 1, 3),
        lambda x, p: p(x + 1, 3, 4),
        lambda x, p: functools.partial(p, x + 1, 7)(8),
        lambda x, p: functools.partial(p, PLACEHOLDER, 7)(x + 1, 8),
        lambda x, p: list(map(functools.partial(torch.sub, PLACEHOLDER, 2, alpha=3), [x, x + 1])),
        lambda x, p: (x + 1, p.args[0] is PLACEHOLDER, repr(p.args[0]), p.args),
        lambda x, p: (x + 1, functools.partial(listed, PLACEHOLDER, 2)),
        lambda x, p: WithMethod().method(x + 1, 3),
    ],
)
def test_placeholders(program: Any) -> None:
    check(program, X, OUTER)


@pytest.mark.skipif(PLACEHOLDER is None, reason="CPython 3.14 has them")
@pytest.mark.parametrize(
    "program",
    [
        lambda x, p: (x + 1, p(x)),
        lambda x, p: (x + 1, functools.partial(listed, PLACEHOLDER, 2)()),
        lambda x, p: (x + 1, functools.partial(listed, 2, PLACEHOLDER)),
        lambda x, p: (x + 1, functools.partial(listed, by=PLACEHOLDER)),
        lambda x, p: (x + 1, Named(listed, PLACEHOLDER, 2)()),
    ],
)
def test_errors_of_placeholders(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for _ in range(3):
        with pytest.raises(TypeError) as plain:
            program(X, OUTER)
        with pytest.raises(TypeError, match=re.escape(str(plain.value))):
            compiled(X, OUTER)

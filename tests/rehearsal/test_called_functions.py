"""Functions that captured code calls: another code, closure or default is seen by the next call."""

from __future__ import annotations

from typing import Any

import torch

from support import World, check


def _scaled(x: torch.Tensor, by: float = 2.0, *, plus: int = 1) -> torch.Tensor:
    return x * by + plus


def test_defaults_are_guarded() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return _scaled(x)

    def change(number: int, world: World) -> None:  # the last one puts back what the first call found
        _scaled.__defaults__ = (3.0,) if number == 1 else (2.0,)
        _scaled.__kwdefaults__ = {"plus": 7 if number == 2 else 1}

    check(f, torch.ones(2), mutate=change, calls=4, graphs=None, captures=None)


def test_another_number_of_defaults_is_seen() -> None:
    def callee(x: torch.Tensor, a: int = 1, b: int = 2) -> torch.Tensor:
        return x * a + b

    def f(x: torch.Tensor) -> Any:
        try:
            return callee(x)
        except TypeError as error:
            return x, str(error)

    def change(number: int, world: World) -> None:
        callee.__defaults__ = (5,) if number == 1 else (1, 2)

    check(f, torch.ones(2), mutate=change, calls=3, graphs=None, captures=None)


def test_another_code_is_seen() -> None:
    def callee(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    codes = callee.__code__, other.__code__

    def change(number: int, world: World) -> None:
        callee.__code__ = codes[number % 2]

    check(lambda x: callee(x) * 2, torch.ones(2), mutate=change, calls=3, graphs=None, captures=None)

"""Import statements in captured code, with another table of modules at a later call."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from support import World, check


@pytest.fixture
def module() -> types.ModuleType:
    made = types.ModuleType("module_of_this_test")
    made.scale = 2  # type: ignore[attr-defined]
    sys.modules[made.__name__] = made
    yield made
    sys.modules.pop(made.__name__, None)


def test_another_module_under_the_name_is_seen(module: types.ModuleType) -> None:
    other = types.ModuleType(module.__name__)
    other.scale = 5  # type: ignore[attr-defined]

    def f(x: torch.Tensor) -> torch.Tensor:
        import module_of_this_test

        return x * module_of_this_test.scale

    def change(number: int, world: World) -> None:
        sys.modules[module.__name__] = other if number == 1 else module

    check(f, torch.ones(2), mutate=change, calls=4, graphs=None, captures=None)


def test_a_module_that_goes_is_missed(module: types.ModuleType) -> None:
    def f(x: torch.Tensor) -> object:
        try:
            from module_of_this_test import scale
        except ImportError as error:
            return x, str(error)
        return x * scale

    def change(number: int, world: World) -> None:
        if number == 1:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = module

    check(f, torch.ones(2), mutate=change, calls=3, graphs=None, captures=None, breaks=None)

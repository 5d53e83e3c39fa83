"""Script functions (`torch.jit.script`): captured as the code they were made of, with what TorchScript does to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.arange(6.0).reshape(2, 3)


@torch.jit.script
def scaled(x: torch.Tensor, factor: int):
    return torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


@torch.jit.script
def declared_float(x: torch.Tensor, factor: float):
    return x * factor, factor


@torch.jit.script
def appends(x: torch.Tensor, numbers: list[int]):
    numbers.append(3)
    return x * len(numbers)


@torch.jit.script
def asks_where_it_is(x: torch.Tensor):
    if torch.jit.is_scripting():
        return x + 1
    return x - 1


@torch.jit.script
def raises(x: torch.Tensor):
    if x.size(0) == 2:
        raise ValueError("two rows")
    return x + 1


@torch.jit.script
def calls_another(x: torch.Tensor, wanted: bool = True):
    y = asks_where_it_is(x)
    return scaled(y, 2) if wanted else y


@torch.jit.script
def loops(x: torch.Tensor, times: int):
    for i in range(times):
        x = x * 2 + i
    return x


@torch.jit.script
def branches(x: torch.Tensor):
    if bool(x.sum() > 0):
        return x + 1
    return x - 1


@torch.jit.script
def writes(x: torch.Tensor):
    x.add_(1)
    return x


def _caught(x):
    try:
        return raises(x)
    except Exception as error:  # noqa: BLE001  its class is what matters
        return x * len(type(error).__name__)


def _list(x):
    numbers = [1, 2]
    return appends(x, numbers), numbers


CAPTURED = {
    "sizes": lambda x: x / scaled(x, 3),
    "by name": lambda x: x / scaled(x, factor=3),
    "an int for a float": lambda x: declared_float(x, 2),
    "a list": _list,
    "asks": lambda x: asks_where_it_is(x),
    "calls": lambda x: (calls_another(x), calls_another(x, wanted=False)),
    "loops": lambda x: loops(x, 3),
    "writes": lambda x: (writes(x.clone()), writes(x + 1)),
    "other rows": lambda x: raises(x[:1]),
}
BROKEN = {"raises": _caught, "branches": lambda x: branches(x) * 2}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CAPTURED)
def test_script_functions_are_captured(name: str, backend: str) -> None:
    check(CAPTURED[name], X, backend=backend)


@pytest.mark.parametrize("name", BROKEN)
def test_what_they_raise_and_branches_on_values_are_torchscripts(name: str) -> None:
    check(BROKEN[name], X, graphs=None, breaks=None, captures=None)


@pytest.mark.parametrize("wrong", [lambda x: scaled(x), lambda x: scaled(x, 1, 2), lambda x: scaled(x, other=1)])
def test_wrong_arguments_are_refused_as_in_eager_mode(wrong: Any) -> None:
    check(wrong, X, raises=RuntimeError, graphs=None, breaks=None, captures=None)


def test_other_sizes_do_not_recompile() -> None:
    def f(x):
        return x / scaled(x, 3)

    compiled, before = framelift.compile(f, backend="eager", dynamic=True), framelift.stats()["captures"]
    for size in (3, 4, 7):
        x = torch.rand(2, size)
        assert torch.equal(compiled(x), f(x))
    assert framelift.stats()["captures"] == before + 1


def test_what_was_traced_stays_what_was_traced() -> None:
    def source(x):
        return x + 1 if x.size(0) == 2 else x - 1

    traced = torch.jit.trace(source, X)
    compiled = framelift.compile(lambda x: traced(x), backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3, 3)), torch.full((3, 3), 2.0))

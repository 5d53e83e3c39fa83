"""Captures kept on disk that draw random numbers from generators, or set their states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from kept_support import counted

X = torch.ones(3)


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _states(*generators: Any) -> list[list[int]]:
    return [torch.get_rng_state().tolist(), *[one.get_state().tolist() for one in generators if one is not None]]


def _same(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], loaded: bool) -> None:
    """The next process gives what eager mode gives, and leaves all generators as it does."""
    outcomes = []
    for run in (lambda *args: (function(*args), 0, 0), lambda *args: counted(function, *args)):
        torch.manual_seed(7)
        args = make()
        result, captures, found = run(*args)
        outcomes.append((repr(result), _states(*args[1:]), (captures, found)))
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[1][2] == ((0, 1) if loaded else (1, 0)), framelift.stats()["not_kept"]


def drawn(x: torch.Tensor, generator: torch.Generator) -> Any:
    return x + torch.randn(3, generator=generator), torch.rand(2), torch.rand(2, generator=generator)


def two(x: torch.Tensor, one: torch.Generator, other: torch.Generator) -> Any:
    return x + torch.rand(3, generator=one) - torch.rand(3, generator=other)


def seeded(x: torch.Tensor) -> Any:
    torch.manual_seed(3)
    return x + torch.rand(3)


def made(x: torch.Tensor) -> Any:
    return x + torch.rand(3, generator=torch.Generator().manual_seed(5))


def put_back(x: torch.Tensor) -> Any:
    before = torch.get_rng_state()
    y = x + torch.rand(3)
    torch.set_rng_state(before)
    return y


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "a generator": (drawn, lambda: (X, _seeded(1))),
    "two generators": (two, lambda: (X, _seeded(1), _seeded(2))),
    "a seed": (seeded, lambda: (X,)),
    "a generator made inside": (made, lambda: (X,)),
    "a state that is put back": (put_back, lambda: (X,)),
}


@pytest.mark.parametrize(("function", "make"), PROGRAMS.values(), ids=PROGRAMS)
def test_generators_are_found_again(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    _same(function, make, loaded=False)
    _same(function, make, loaded=True)


def test_any_state_will_do() -> None:
    _same(drawn, lambda: (X, _seeded(1)), loaded=False)
    _same(drawn, lambda: (X, _seeded(2)), loaded=True)


def test_one_generator_is_not_two() -> None:
    def once() -> tuple[Any, ...]:
        generator = _seeded(1)
        return X, generator, generator

    _same(two, lambda: (X, _seeded(1), _seeded(2)), loaded=False)
    _same(two, once, loaded=False)
    _same(two, once, loaded=True)


def test_torchs_own_generator_is_another_capture() -> None:
    _same(drawn, lambda: (X, _seeded(1)), loaded=False)
    _same(drawn, lambda: (X, torch.default_generator), loaded=False)


def test_a_generator_that_is_returned_is_not_kept() -> None:
    def f(x: torch.Tensor) -> Any:
        generator = torch.Generator().manual_seed(5)
        return x + torch.rand(3, generator=generator), generator

    for _ in range(2):
        (_, generator), captures, loaded = counted(f, X)
        assert torch.equal(generator.get_state(), f(X)[1].get_state()) and (captures, loaded) == (1, 0)


def test_a_changed_seed_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        torch.manual_seed(SEED)
        return x + torch.rand(3)

    _same(f, lambda: (X,), loaded=False)
    monkeypatch.setitem(globals(), "SEED", 12)
    _same(f, lambda: (X,), loaded=False)


SEED = 11


def test_inductors_caches_hold_no_generators() -> None:
    """What a compiler keeps on disk would draw from a generator of its own."""
    for _ in range(2):
        framelift.reset()
        ours, real = _seeded(1), _seeded(1)
        found = framelift.compile(two, backend="inductor")(X, ours, _seeded(2))
        assert torch.equal(found, two(X, real, _seeded(2)))
        assert torch.equal(ours.get_state(), real.get_state())

"""Captures with tensor subclasses that override torch functions, kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from kept_support import counted

SCALE = 2


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


class Scaled(torch.Tensor):
    """Its sines are larger."""

    factor = 3

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * (cls.factor * SCALE) if func is torch.Tensor.sin else result


class Named(torch.Tensor):
    """It has a method of its own, and overrides nothing."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def twice(self) -> torch.Tensor:
        return self * SCALE


def given(x: torch.Tensor) -> Any:
    y = x.sin() + 1
    return y, type(y).__name__, [y.cos()]


def made(x: torch.Tensor) -> Any:
    y = x.as_subclass(Scaled)
    return y.sin(), x.cos() * SCALE


def plain(x: Any) -> Any:
    return x.twice() + 1


def mixed(x: torch.Tensor) -> Any:
    return torch.add(x.sin(), torch.ones(3)).as_subclass(torch.Tensor)


def with_a_break(x: torch.Tensor) -> Any:
    y = x.sin()
    framelift.graph_break()
    return y.sin() * SCALE


CASES: dict[str, tuple[Callable[..., Any], type]] = {
    "given": (given, Scaled),
    "made": (made, torch.Tensor),
    "mixed": (mixed, Scaled),
    "plain": (plain, Named),
    "a break": (with_a_break, Scaled),
}


def shown(value: Any) -> Any:
    """Values and classes of a result."""
    if isinstance(value, torch.Tensor):
        return type(value), value.as_subclass(torch.Tensor).tolist(), value.requires_grad
    return [shown(one) for one in value] if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_capture_is_loaded(name: str, grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, kind = CASES[name]

    def compared() -> tuple[int, int]:
        x = torch.arange(3.0).requires_grad_(grad)
        given_one = x.as_subclass(kind)
        result, captures, loaded = counted(function, given_one)
        assert shown(result) == shown(function(given_one))
        return captures, loaded

    captures, loaded = compared()
    assert captures and not loaded
    assert compared() == (0, captures), framelift.stats()["not_kept"]
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert compared()[0]
    assert compared() == (0, captures)


def test_what_a_class_does_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(3.0).as_subclass(Scaled)
    assert counted(given, x)[1:] == (1, 0)
    monkeypatch.setattr(Scaled, "factor", 4)
    result, captures, loaded = counted(given, x)
    assert (captures, loaded) == (1, 0) and shown(result) == shown(given(x))

    def other(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})

    monkeypatch.setattr(Scaled, "__torch_function__", classmethod(other))
    result, captures, loaded = counted(given, x)
    assert (captures, loaded) == (1, 0) and shown(result) == shown(given(x))
    result, captures, loaded = counted(given, torch.arange(3.0))
    assert (captures, loaded) == (1, 0) and shown(result) == shown(given(torch.arange(3.0)))

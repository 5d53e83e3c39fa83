"""Objects whose class has a `__getattribute__`: what it reads by `super()` is answered by the native core once the
session knows the class.  Each program reads names of two objects of one class; results and effects are compared with
plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

X = torch.arange(4.0)


class Base:
    names: dict[str, str] = {"width": "size"}
    of_base = 2

    def __getattribute__(self, name: str) -> Any:
        own = super().__getattribute__("__dict__")
        if own.get("closed") is not None and name in own["closed"]:
            raise AttributeError(name)
        return super().__getattribute__(name)


class Settings(Base):
    depth = 3

    def __init__(self, size: int) -> None:
        self.size = size
        self.rate = 0.5
        self.kinds = ["a", "b"]
        self.closed: list[str] | None = None

    def __getattribute__(self, name: str) -> Any:
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)

    def method(self) -> int:
        return self.size + self.depth

    @property
    def double(self) -> int:
        return 2 * self.size


def step(x: torch.Tensor, one: Any, other: Any) -> torch.Tensor:
    for settings in (one, other, one):
        x = x * settings.width + settings.rate + settings.depth + settings.of_base
        x = x + len(settings.kinds) + settings.method() + settings.double + len(settings.__dict__)
        x = x + hasattr(settings, "absent")
    return x


def _renamed(settings: Settings) -> None:
    settings.__dict__["names"] = {"width": "rate"}


def _closed(settings: Settings) -> None:
    settings.closed = ["absent"]


def _as_other(settings: Settings) -> None:
    class Other(Settings):
        depth = 9

        def __getattribute__(self, name: str) -> Any:
            return 5 if name == "rate" else super().__getattribute__(name)

    settings.__class__ = Other


CHANGES: list[Callable[[Settings], Any]] = [
    lambda settings: setattr(settings, "size", 4),
    lambda settings: setattr(settings, "rate", 1.5),
    lambda settings: setattr(settings, "depth", 7),
    lambda settings: setattr(settings, "of_base", 8),
    lambda settings: setattr(settings, "absent", 1),
    lambda settings: settings.kinds.append("c"),
    lambda settings: setattr(settings, "method", lambda: 11),
    lambda settings: setattr(settings, "extra", 1),
    _renamed,
    _closed,
    _as_other,
]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_of_either_object_is_seen(number: int, which: int) -> None:
    pair = Settings(2), Settings(3)
    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, *pair), step(X, *pair))
    CHANGES[number](pair[which])
    assert torch.equal(compiled(X, *pair), step(X, *pair))


@pytest.mark.parametrize("name, value", [("depth", 4), ("of_base", 6), ("names", {"width": "rate"})])
def test_a_change_of_a_class_is_seen(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Settings(2), Settings(3)
    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, *pair), step(X, *pair))
    monkeypatch.setattr(Settings, name, value)
    assert torch.equal(compiled(X, *pair), step(X, *pair))


def test_another_getter_in_a_base_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Settings(2), Settings(3)
    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, *pair), step(X, *pair))
    plain = Base.__getattribute__
    monkeypatch.setattr(Base, "__getattribute__", lambda self, name: 6 if name == "rate" else plain(self, name))
    assert torch.equal(compiled(X, *pair), step(X, *pair))


def test_what_was_written_is_read() -> None:
    def program(x: torch.Tensor, one: Settings, other: Settings) -> torch.Tensor:
        x = x * one.width + other.width
        other.size = one.size + 5
        other.depth = 8
        one.__dict__["rate"] = 2.5
        del other.kinds
        return x * other.width + other.depth + one.rate + hasattr(other, "kinds") + len(other.__dict__)

    compiled = framelift.compile(program, backend="eager")
    for size in (2, 3):
        objects, plain = [(Settings(size), Settings(1)) for _ in range(2)]
        assert torch.equal(compiled(X, *objects), program(X, *plain))
        assert [vars(one) for one in objects] == [vars(one) for one in plain]


def test_both_have_the_same_guards() -> None:
    compiled = framelift.compile(step, backend="eager", fullgraph=True)
    compiled(X, Settings(2), Settings(3))
    guards = [str(guard) for guard in compiled.entries[0].info.guards]
    first, second = (
        sorted(text.removeprefix(name).replace(" 3", " 2") for text in guards if text.startswith(name))
        for name in ("one", "other")
    )
    assert len(first) > 8
    assert first == second


def test_methods_of_bases_by_super() -> None:
    """`super().method` of several objects of one class, and of a class itself."""

    class Counter(dict):  # type: ignore[type-arg]
        def __setitem__(self, key: str, value: int) -> None:
            super().__setitem__(key, value + 1)

        @classmethod
        def fromkeys(cls, keys: Any, value: Any = None) -> Any:  # type: ignore[override]
            return super().fromkeys(keys, value)

    class Named(Settings):
        def method(self) -> int:
            return super().method() * 10

    def program(x: torch.Tensor, one: Named, other: Named) -> torch.Tensor:
        counter = Counter()
        for number, settings in enumerate((one, other, one)):
            counter[f"k{number}"] = settings.method()
        return x + sum(counter.values()) + len(Counter.fromkeys("ab", 1))

    compiled = framelift.compile(program, backend="eager")
    pair = Named(2), Named(3)
    assert torch.equal(compiled(X, *pair), program(X, *pair))
    pair[1].size = 7
    assert torch.equal(compiled(X, *pair), program(X, *pair))

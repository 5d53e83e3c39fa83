"""What `type` keeps in each class for itself: annotations and abstract methods are no matter of the bases."""

from __future__ import annotations

import abc
import types
import typing
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2)


class Meta(type):
    pass


def _worlds() -> Any:
    class Base(metaclass=Meta):
        x: int

    class Derived(Base):
        pass

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def method(self) -> None: ...

    class Whole(Abstract):
        def method(self) -> None: ...

    return Base, Derived, Abstract, Whole


def test_each_class_has_its_own() -> None:
    def program(x: Any, base: Any, derived: Any, abstract: Any, whole: Any) -> Any:
        found = (
            [sorted(cls.__annotations__) for cls in (base, derived)],
            derived.__annotations__ is derived.__annotations__,
        )
        has = [hasattr(cls, "__abstractmethods__") for cls in (base, int, type, abstract, whole)]
        return (
            x + 1,
            found,
            has,
            abstract.__abstractmethods__,
            whole.__abstractmethods__,
            getattr(int, "__annotations__", None),
            derived().__annotations__,
        )

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    plain, captured = _worlds(), _worlds()
    for _ in range(2):
        assert program(X, *plain)[1:] == compiled(X, *captured)[1:]
        for world in (plain, captured):
            world[1].__annotations__["y"] = int


def test_methods_that_become_abstract() -> None:
    def program(x: Any, cls: Any) -> Any:
        return x + hasattr(cls, "__abstractmethods__")

    class Plain:
        pass

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X, Plain), X)
    Plain.__abstractmethods__ = frozenset({"f"})  # type: ignore[attr-defined]
    assert torch.equal(compiled(X, Plain), X + 1)


@typing.runtime_checkable
class HasSize(typing.Protocol):
    size: int

    def grow(self) -> None: ...


class Sized:
    def __init__(self) -> None:
        self.size = 1

    def grow(self) -> None: ...


def test_protocols() -> None:
    check(
        lambda x, one: (x + isinstance(one, HasSize), isinstance(3, HasSize), isinstance(3, typing.SupportsInt)),
        X,
        Sized(),
    )


def test_nobody_asks_a_module_for_names_of_its_own() -> None:
    """A module's `__getattr__` is code of the program: only what the program reads is asked of it."""
    module, asked = types.ModuleType("asked"), []

    def answer(name: str) -> int:
        asked.append(name)
        return len(name)

    module.__getattr__ = answer  # type: ignore[method-assign]
    module.known = 1
    compiled = framelift.compile(lambda x: x + module.known + module.other, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X + 6) and torch.equal(compiled(X), X + 6)
    assert set(asked) == {"other"}


def test_an_entry_that_a_base_has_too() -> None:
    class Base:
        v = 1

    class Derived(Base):
        v = 1

    compiled = framelift.compile(
        lambda x: (x + Derived.__dict__.get("v", 5), "v" in vars(Derived)), backend="eager", fullgraph=True
    )
    assert compiled(X)[1]
    del Derived.v
    assert not compiled(X)[1] and torch.equal(compiled(X)[0], X + 5)
    Derived.v = 7
    assert compiled(X)[1] and torch.equal(compiled(X)[0], X + 7)
    del Derived.v
    assert not compiled(X)[1]


@pytest.mark.parametrize(
    "rows",
    [
        [range(0, 3, 2), range(0, 4, 2), range(0), range(2, 2)],
        [frozenset([1]), frozenset([True]), frozenset([0.0]), frozenset([-0.0])],
        [frozenset([(1,)]), frozenset([(True,)]), frozenset([(1.0,)])],
    ],
)
def test_equal_values_that_differ(rows: list[Any]) -> None:
    held: list[Any] = [None]
    compiled = framelift.compile(
        lambda x: (x + 1, repr(held[0]), getattr(held[0], "stop", None)), backend="eager", fullgraph=True
    )
    for value in (*rows, *reversed(rows)):
        held[0] = value
        assert compiled(X)[1:] == (repr(value), getattr(value, "stop", None))


def test_where_an_attribute_is_found_beside_what_was_written():
    class Base:
        weight = 1

    class Child(Base):
        weight = 7

    source = {"a": 5}

    def program(x):
        Base.weight = source["a"]
        read = Child.weight, Child().weight
        Base.weight = Child.weight
        return x + 1, read

    def run(call):
        Base.weight, Child.weight, seen = 1, 7, []
        for step in range(6):
            if step == 2:
                del Child.weight
            if step == 4:
                Child.weight = 8
            seen.append((call(torch.ones(1))[1], Base.weight, Child.weight))
        return seen

    assert run(framelift.compile(program, backend="eager")) == run(program)

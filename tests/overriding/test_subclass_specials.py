"""Tensor subclasses.

Special methods replaced after a capture, counters that run where classes and instances are made, `cls` in overrides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift
import pytest
import torch
from support import compiled

T = torch.Tensor


def plain(value: Any) -> Any:
    return (type(value).__name__, value.as_subclass(T).tolist()) if isinstance(value, T) else value


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return plain(function(*args))
    except Exception as error:
        return type(error), str(error)


def make_class() -> type:
    return type("Sub", (T,), {})


def _overriding(factor: float) -> classmethod[Any, Any, Any]:
    def override(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) * factor

    return classmethod(override)


def _branch(x: Any) -> Any:
    return torch.ones(1) if x else torch.zeros(1)


#: special method: a program that uses it, and two things to put there
SPECIALS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "__add__": (lambda x: x + 1, lambda self, other: torch.full((2,), 5.0), lambda self, other: torch.full((2,), 6.0)),
    "__radd__": (lambda x: 1 + x, lambda self, other: torch.full((2,), 5.0), lambda self, other: torch.full((2,), 6.0)),
    "__iadd__": (
        lambda x: x.__iadd__(1),
        lambda self, other: torch.full((2,), 5.0),
        lambda self, other: torch.full((2,), 6.0),
    ),
    "__getitem__": (lambda x: x[0], lambda self, at: torch.full((2,), 5.0), lambda self, at: torch.full((2,), 6.0)),
    "__len__": (lambda x: torch.ones(2) * len(x), lambda self: 5, lambda self: 6),
    "__bool__": (_branch, lambda self: True, lambda self: False),
    "__eq__": (lambda x: x == 1, lambda self, other: torch.ones(1), lambda self, other: torch.zeros(1)),
    "__neg__": (lambda x: -x, lambda self: torch.full((2,), 5.0), lambda self: torch.full((2,), 6.0)),
    "__contains__": (lambda x: torch.ones(2) * (3.0 in x), lambda self, value: True, lambda self, value: False),
    "__iter__": (lambda x: sum(x), lambda self: iter([torch.ones(1)]), lambda self: iter([torch.ones(1)] * 3)),
    "__float__": (lambda x: torch.ones(1) * float(x), lambda self: 5.0, lambda self: 6.0),
    "__torch_function__": (lambda x: x + 1, _overriding(5.0), _overriding(6.0)),
    "__getattr__": (lambda x: torch.ones(1) * x.other, lambda self, name: 5, lambda self, name: 6),
}


def _steps(name: str, first: bool, compile: Callable[..., Any]) -> list[Any]:
    """Without it, with one, with another, and without it again; `first`: the capture comes when it is there."""
    cls = make_class()
    program, one, other = SPECIALS[name]
    x = torch.ones(2).as_subclass(cls) if name not in ("__bool__", "__float__") else torch.ones(1).as_subclass(cls)
    f = compile(program)
    seen = [] if first else [outcome(f, x)]
    for value in (one, other, one):
        setattr(cls, name, value)
        seen.append(outcome(f, x))
    delattr(cls, name)
    return [*seen, outcome(f, x)]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", SPECIALS)
def test_replaced_special_methods(name: str, first: bool) -> None:
    framelift.reset()
    assert _steps(name, first, compiled) == _steps(name, first, lambda function: function)


def _counting() -> type:
    class Counting(T):
        made = started = derived = 0

        def __new__(cls, *args: Any) -> Any:
            Counting.made += 1
            return super().__new__(cls, *args)

        def __init__(self, *args: Any) -> None:
            Counting.started += 1

        def __init_subclass__(cls, **named: Any) -> None:
            Counting.derived += 1
            super().__init_subclass__(**named)

    return Counting


MAKING: dict[str, Callable[[Any, Any], Any]] = {
    "instance": lambda cls, x: cls(x) + cls.made,
    "two instances": lambda cls, x: cls(x) + cls(x) * cls.made + cls.started,
    "subclass": lambda cls, x: x + type("Derived", (cls,), {}).derived,
    "instance of a subclass": lambda cls, x: type("Derived", (cls,), {})(x) * cls.made,
}


@pytest.mark.parametrize("name", MAKING)
def test_counters_where_classes_and_instances_are_made(name: str) -> None:
    def run(compile: Callable[..., Any]) -> list[Any]:
        cls = _counting()
        f = compile(lambda x: MAKING[name](cls, x))
        return [(outcome(f, torch.ones(2)), cls.made, cls.started, cls.derived) for _ in range(3)]

    framelift.reset()
    assert run(compiled) == run(lambda function: function)


def _class_attributes(cls: Any) -> Callable[[Any], Any]:
    cls.factor, cls.seen = 2.0, 0

    def override(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen += 1
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) * cls.factor

    cls.__torch_function__ = classmethod(override)
    return lambda x: x.sin() + 1


def test_class_attributes_in_an_override() -> None:
    def run(compile: Callable[..., Any]) -> list[Any]:
        cls = make_class()
        f = compile(_class_attributes(cls))
        x = torch.ones(2).as_subclass(cls)
        seen = []
        for factor in (2.0, 3.0, 3.0, 2.0):
            cls.factor = factor
            seen.append((outcome(f, x), cls.seen))
        del cls.factor
        return [*seen, outcome(f, x), cls.seen]

    framelift.reset()
    assert run(compiled) == run(lambda function: function)

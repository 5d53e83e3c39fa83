"""Modules and classes whose own class is assigned between calls.

Identity alone does not say what a read of them gives.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

PROGRAMS: dict[str, Callable[[Any], list[Any]]] = {}


def program(function: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    PROGRAMS[function.__name__] = function
    return function


def new_module(**entries: Any) -> types.ModuleType:
    module = types.ModuleType("some_module")
    vars(module).update(entries)
    return module


def kind(**entries: Any) -> type:
    return type("Kind", (types.ModuleType,), entries)


X = torch.ones(2)


@program
def a_property_hides_an_entry(compiled: Any) -> list[Any]:
    module = new_module(k=2)
    f = compiled(lambda x: x * module.k)
    seen = [f(X)]
    for cls in (kind(k=property(lambda self: 9)), types.ModuleType):
        module.__class__ = cls
        seen.append(f(X))
    return seen


@program
def an_imported_module(compiled: Any) -> list[Any]:
    module = sys.modules["some_module"] = new_module(f=lambda x: x * 2)

    def f(x: Any) -> Any:
        import some_module

        return some_module.f(x)

    try:
        g = compiled(f)
        seen = [g(X)]
        module.__class__ = kind(f=property(lambda self: lambda x: x * 9))
        return [*seen, g(X)]
    finally:
        del sys.modules["some_module"]


@program
def writes_of_a_module(compiled: Any) -> list[Any]:
    module = new_module(n=0)

    def f(x: Any) -> Any:
        module.n += 1
        return x * module.n

    g = compiled(f)
    seen = [g(X), g(X)]
    module.__class__ = kind(__setattr__=lambda self, name, value: vars(self).update({name: value * 10}))
    return [*seen, g(X), g(X), module.n]


class Meta(type):
    k = 2


class Other(type):
    k = 5

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


def new_class() -> Any:
    return Meta("Made", (), {})


@program
def an_entry_of_the_metaclass(compiled: Any) -> list[Any]:
    cls = new_class()
    f = compiled(lambda x: x * cls.k)
    seen = [f(X)]
    cls.__class__ = Other
    return [*seen, f(X)]


@program
def the_class_of_a_class(compiled: Any) -> list[Any]:
    cls = new_class()
    of_instance = cls()
    f, g = compiled(lambda x: x * type(cls).k), compiled(lambda x: x * type(type(of_instance)).k)
    seen = [f(X), g(X)]
    cls.__class__ = Other
    return [*seen, f(X), g(X)]


@program
def a_check_of_instances(compiled: Any) -> list[Any]:
    cls = new_class()
    f = compiled(lambda x: x + 1 if isinstance(x, cls) else x - 1)
    seen = [f(X)]
    cls.__class__ = Other
    return [*seen, f(X)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_class_that_is_assigned_is_noticed(name: str) -> None:
    def plain(values: list[Any]) -> list[Any]:
        return [value.tolist() if isinstance(value, torch.Tensor) else value for value in values]

    wanted = plain(PROGRAMS[name](lambda function: function))
    assert plain(PROGRAMS[name](lambda function: framelift.compile(function, backend="eager"))) == wanted

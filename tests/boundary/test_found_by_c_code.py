"""Methods that C code finds on a class, under whatever name: which one it finds, and that it finds none, is guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Named:
    def __class_getitem__(cls, key):
        return key + 1


class Unnamed:
    pass


def make_subscribed() -> tuple[Callable[..., Any], dict[str, Any]]:
    class Inner(Named):
        pass

    def subscribed(x):
        try:
            return x * Inner[2]
        except TypeError:
            return x - 1

    return subscribed, {"Inner": Inner}


def make_uncaught() -> tuple[Callable[..., Any], dict[str, Any]]:
    class Inner(Named):
        pass

    return lambda x: x * Inner[2], {"Inner": Inner}


def make_added() -> tuple[Callable[..., Any], dict[str, Any]]:
    class Added:
        def __add__(self, other):
            return 1

        __radd__ = __add__

    added = Added()
    return lambda x: x * (3 + added), {"Inner": Added}


def make_subclassed() -> tuple[Callable[..., Any], dict[str, Any]]:
    class Base:
        def __init_subclass__(cls):
            cls.number = 2

    def subclassed(x):
        class Derived(Base):
            pass

        return x * Derived.number

    return subclassed, {"Inner": Base}


def set_number(cls: Any) -> None:
    cls.number = 5


CHANGES: list[tuple[str, Any, Callable[[Any], None]]] = [
    ("other bases", make_subscribed, lambda cls: setattr(cls, "__bases__", (Unnamed,))),
    ("other bases, not caught", make_uncaught, lambda cls: setattr(cls, "__bases__", (Unnamed,))),
    ("overridden", make_subscribed, lambda cls: setattr(cls, "__class_getitem__", classmethod(lambda cls, key: 50))),
    ("another name", make_added, lambda cls: setattr(cls, "__radd__", lambda self, other: 7)),
    ("a subclass", make_subclassed, lambda cls: setattr(cls, "__init_subclass__", classmethod(set_number))),
]


@pytest.mark.parametrize("case", CHANGES, ids=[name for name, _, _ in CHANGES])
def test_what_c_code_finds_on_a_class(case: Any) -> None:
    _, make, change = case
    function, names = make()
    compiled = framelift.compile(function, backend="eager")

    def outcome(call: Callable[..., Any]) -> Any:
        try:
            return call(torch.ones(2)).tolist()
        except TypeError as error:
            return str(error)

    bases = names["Inner"].__bases__
    assert outcome(compiled) == outcome(function)
    change(names["Inner"])
    assert outcome(compiled) == outcome(function)
    if names["Inner"].__bases__ != bases:
        names["Inner"].__bases__ = bases
    assert outcome(compiled) == outcome(function)

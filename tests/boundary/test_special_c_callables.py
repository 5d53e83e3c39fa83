"""Special methods that are C callables with an effect: C code calls them, and no probe sees it.  Each call has its
effect, as in plain Python.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def _assign(obj: Any) -> None:
    obj.attribute = 4


def _delete(obj: Any) -> None:
    del obj.attribute


def _delete_item(obj: Any) -> None:
    del obj[3]


def _describe(obj: Any) -> Any:
    return type("Holder", (), {"found": obj})().found


def _state(obj: Any) -> None:
    class Holder:
        found = obj


USES: list[tuple[str, Callable[[Any], Any]]] = [
    ("__len__", len),
    ("__bool__", bool),
    ("__hash__", hash),
    ("__index__", operator.index),
    ("__floor__", math.floor),
    ("__eq__", lambda obj: obj == 3),
    ("__contains__", lambda obj: 3 in obj),
    ("__add__", lambda obj: obj + 3),
    ("__radd__", lambda obj: 3 + obj),
    ("__getitem__", lambda obj: obj[3]),
    ("__delitem__", _delete_item),
    ("__getattr__", lambda obj: obj.attribute),
    ("__getattr__", lambda obj: hasattr(obj, "attribute")),
    ("__getattribute__", lambda obj: obj.attribute),
    ("__setattr__", _assign),
    ("__delattr__", _delete),
    ("__call__", lambda obj: obj(1)),
    ("__get__", _describe),
    ("__set_name__", _describe),
    ("__set_name__", _state),
]


class File:
    """What `print` writes to."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        self.texts.append(text)


def _with_method(name: str) -> tuple[type, File]:
    """A class whose special method is C code with an effect, and where the effect is seen."""
    file = File()
    return type("Special", (), {name: functools.partial(print, "called", end="", file=file)}), file


def _effects(name: str, use: Callable[[Any], Any], inside: bool, compiled: bool) -> list[Any]:
    cls, file = _with_method(name)
    held = cls()

    def program(x: torch.Tensor) -> torch.Tensor:
        use(cls() if inside else held)
        return x + 1

    call = framelift.compile(program, backend="eager") if compiled else program
    seen: list[Any] = []
    for _ in range(4):
        try:
            seen.append(call(torch.ones(2)).tolist())
        except TypeError as error:
            seen.append(str(error))
        seen.append(file.texts.count("called"))
    return seen


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize(("name", "use"), USES, ids=[f"{i}{name}" for i, (name, _) in enumerate(USES)])
def test_each_call_has_its_effect(name: str, use: Callable[[Any], Any], inside: bool) -> None:
    framelift.reset()
    wanted = _effects(name, use, inside, False)
    assert wanted[-1] >= 4
    assert _effects(name, use, inside, True) == wanted

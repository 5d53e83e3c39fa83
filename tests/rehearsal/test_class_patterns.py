"""Class patterns: what `match` looks at, in which order, and which errors it raises."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

from support import check


class Plain:
    a, b = 1, 2


class Named:
    __match_args__ = ("a", "b")
    a, b = 1, 2


class Twice(Named):
    __match_args__ = ("a", "a")


class NoTexts(Named):
    __match_args__ = ("a", None)  # type: ignore[assignment]


class NoTuple(Named):
    __match_args__ = ["a"]  # type: ignore[assignment]


class Number(int): ...


class NamedNumber(int):
    __match_args__ = ("real",)


class Raises:
    __match_args__ = ("a",)

    @property
    def a(self) -> Any:
        raise ValueError("a")


def by_position(cls: type, subject: Any) -> Any:
    match subject:
        case cls(one):
            return one
    return "no match"


def by_two(cls: type, subject: Any) -> Any:
    match subject:
        case cls(one, two):
            return one, two
    return "no match"


def by_both(cls: type, subject: Any) -> Any:
    match subject:
        case cls(one, a=two):
            return one, two
    return "no match"


def by_name(cls: type, subject: Any) -> Any:
    match subject:
        case cls(a=one, b=two, missing=_):
            return one, two
        case cls(a=one):
            return one
    return "no match"


SUBJECTS: list[tuple[Any, Any]] = [
    *((cls, cls()) for cls in (Plain, Named, Twice, NoTexts, NoTuple, Raises)),
    *((cls, cls(3)) for cls in (int, Number, NamedNumber, str, float)),
    (collections.deque, collections.deque([1])),
    (list, [1]),
    (int, "text"),
    (3, 3),
]


@pytest.mark.parametrize("pattern", [by_position, by_two, by_both, by_name])
@pytest.mark.parametrize("number", range(len(SUBJECTS)))
@pytest.mark.parametrize("inside", [False, True])
def test_class_patterns(pattern: Any, number: int, inside: bool) -> None:
    cls, subject = SUBJECTS[number]

    def f(x: torch.Tensor) -> Any:
        made = subject
        if inside and isinstance(cls, type):
            made = cls(3) if issubclass(cls, (int, str, float)) else cls()
        try:
            found = pattern(cls, made)
            return x + 1, found is made, found if found is not made else None
        except (TypeError, ValueError) as error:
            return x - 1, str(error)

    whole = cls is not NamedNumber or inside  # a number with attributes from outside is not known
    check(f, torch.ones(2), graphs=1 if whole else None, breaks=0 if whole else None)

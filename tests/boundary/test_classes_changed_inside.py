"""Captured code that changes a class between two reads of an instance: what was found before does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Base:
    def value(self) -> int:
        return 1


class Other:
    def value(self) -> int:
        return 9


def _made() -> Any:
    return type("Made", (Base,), {"own": lambda self: super(type(self), self).value()})


def descriptor_added(x: torch.Tensor, one: Any) -> torch.Tensor:
    first = one.n
    type(one).n = property(lambda self: 7)
    return x + first + 10 * one.n


def method_of_a_base(x: torch.Tensor, one: Any) -> torch.Tensor:
    first = one.own()
    before, Base.value = Base.value, Other.value
    try:
        return x + first + 10 * one.own()
    finally:
        Base.value = before


def bases(x: torch.Tensor, one: Any) -> torch.Tensor:
    first = one.own()
    type(one).__bases__ = (Other,)
    return x + first + 10 * one.own()


def class_of_the_instance(x: torch.Tensor, one: Any) -> torch.Tensor:
    first = one.n
    one.__class__ = type("Read", (type(one),), {"n": property(lambda self: 8)})
    return x + first + 10 * one.n


@pytest.mark.parametrize("program", [descriptor_added, method_of_a_base, bases, class_of_the_instance])
def test_a_class_that_changes_between_two_reads(program: Callable[..., torch.Tensor]) -> None:
    compiled = framelift.compile(program, backend="eager")
    for n in (2, 3):
        found = []
        for run in (program, compiled):
            one = _made()()
            one.n = n
            found.append(run(torch.zeros(1), one).item())
        assert found[0] == found[1]

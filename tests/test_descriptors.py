"""Descriptors that derive from the built-in ones, or hold other descriptors, bind as in plain Python."""

from __future__ import annotations

import abc
from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2)


class Own(property):
    pass


class OwnStatic(staticmethod):
    pass


class Asking(classmethod):
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return lambda: (owner.__name__, self.__func__(owner))


class Base:
    @classmethod
    @property
    def chained(cls) -> Any:
        return cls.__name__

    @abc.abstractclassmethod
    def made(cls) -> Any:
        return cls.__name__, 4

    @Own
    def own(self) -> Any:
        return 5

    @OwnStatic
    def static() -> Any:
        return 6

    @Asking
    def asking(cls) -> Any:
        return 7


class Derived(Base):
    @property
    def own(self) -> Any:
        return super().own * 2

    @classmethod
    def made(cls) -> Any:
        return super().made(), cls.__name__

    @OwnStatic
    def static() -> Any:
        return super(Derived, Derived).static() + 1


def read(x: Any, thing: Any) -> Any:
    return x + thing.static(), thing.chained, thing.made(), thing.asking()


def read_property(x: Any, thing: Any) -> Any:
    return x + thing.own


def made_inside(x: Any) -> Any:
    class Inner(Base):
        @abc.abstractclassmethod
        def made(cls) -> Any:
            return super().made(), "inner"

    class Last(Inner):
        @classmethod
        def made(cls) -> Any:
            return super().made()
    try:
        return x + Last().own, Last.made(), Last().made(), Last.chained, Inner.static()
    except TypeError:
        return x - 1


def asked_for(x: Any) -> Any:
    method = vars(Base)["made"]
    return x + 1, method.__get__(None, Derived)(), method.__get__(Derived())()


@pytest.mark.parametrize("thing", [Base, Derived, Base(), Derived()])
def test_reads(thing: Any) -> None:
    check(read, X, thing)


@pytest.mark.parametrize("thing", [Base(), Derived()])
def test_reads_of_properties(thing: Any) -> None:
    check(read_property, X, thing)


@pytest.mark.parametrize("program", [made_inside, asked_for])
def test_programs(program: Any) -> None:
    check(program, X)


def test_a_metaclass_with_an_order_of_its_own() -> None:
    """`mro` is called with a class that is none yet: such a statement runs in plain Python, and what it raises there is what is seen."""
    def program(x: Any) -> Any:
        class Meta(type):
            def mro(cls) -> Any:
                cls.__dict__["told"]()
                return super().mro()
        try:
            class Made(metaclass=Meta):
                def told() -> None:
                    pass
        except TypeError:
            return x - 1
        return x + len(Made.__mro__)
    assert torch.equal(framelift.compile(program, backend="eager")(X), program(X))
    with pytest.raises(framelift.exc.Unsupported, match="mro"):
        framelift.compile(program, backend="eager", fullgraph=True)(X)

"""Descriptors that derive from the built-in ones, or hold other descriptors, bind as in plain Python."""

from __future__ import annotations

import abc
import sys
import copy
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


CHAINS = sys.version_info < (3, 13)  # a classmethod is made of another descriptor


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
    return x + thing.static(), thing.chained if CHAINS else 0, thing.made(), thing.asking()


def read_property(x: Any, thing: Any) -> Any:
    return x + thing.own


def asked_for(x: Any) -> Any:
    method = vars(Base)["made"]
    return x + 1, method.__get__(None, Derived)(), method.__get__(Derived())()


@pytest.mark.parametrize("thing", [Base, Derived, Base(), Derived()])
def test_reads(thing: Any) -> None:
    check(read, X, thing)


@pytest.mark.parametrize("thing", [Base(), Derived()])
def test_reads_of_properties(thing: Any) -> None:
    check(read_property, X, thing)


@pytest.mark.parametrize("program", [asked_for])
def test_programs(program: Any) -> None:
    check(program, X)


# ---- classes whose attributes are asked of code of their own ---------------------------------------------------------


class Asked:
    def __init__(self) -> None:
        self.value = 1

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found + 100 if name == "value" else found

    def method(self) -> int:
        return 5


class AskedTwice(Asked):
    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return (lambda: 50) if name == "method" else found


class Doubling:
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found + 1 if name == "value" else found


class AskedMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        found = type.__getattribute__(cls, name)
        return found + 100 if name == "constant" else found


class OfAskedMeta(metaclass=AskedMeta):
    constant = 1

    @classmethod
    def read(cls) -> int:
        return cls.constant


def asked_at_each_read(one: Any, two: Any, three: Any, x: Any) -> Any:
    three.value = 4
    return (
        x + 1,
        one.value,
        one.value,
        object.__getattribute__(one, "value"),
        one.value,
        two.value,
        two.method(),
        two.method(),
        Asked.method(two),
        super(AskedTwice, two).method(),
        two.method(),
        three.value,
        object.__getattribute__(three, "value"),
        three.value,
    )


def asked_of_a_metaclass(x: Any) -> Any:
    return (
        x + 1,
        OfAskedMeta.constant,
        OfAskedMeta.constant,
        type.__getattribute__(OfAskedMeta, "constant"),
        OfAskedMeta.constant,
        [OfAskedMeta.read() for _ in range(2)],
    )


def test_code_that_is_asked_at_each_read() -> None:
    check(asked_at_each_read, Asked(), AskedTwice(), Doubling(), torch.ones(1))
    check(asked_of_a_metaclass, torch.ones(1))


class _Changing:
    """A value of a class attribute whose class becomes one of descriptors, and a plain one again."""


class _HasChanging:
    one = _Changing()


def _read(x: torch.Tensor, obj: Any) -> Any:
    return x, type(obj.one).__name__


def _write(x: torch.Tensor, obj: Any) -> Any:
    obj.one = 5
    return x, type(obj.one).__name__


def _delete(x: torch.Tensor, obj: Any) -> Any:
    del obj.one
    return x + 1


def _copied(x: torch.Tensor, obj: Any) -> Any:
    made = _HasChanging()
    made.__dict__["one"] = 6
    return x, vars(made), made.__dict__ == vars(copy.copy(obj))


@pytest.mark.parametrize("program", [_read, _write, _delete, _copied])
def test_a_class_that_becomes_one_of_data_descriptors(program: Any) -> None:
    written: list[Any] = []
    names = {
        "__set__": lambda self, obj, value: written.append(value),
        "__delete__": lambda self, obj: written.append("deleted"),
        "__get__": lambda self, obj, owner=None: 7.5,
    }
    rows = []
    framelift.reset()
    for run in (program, framelift.compile(program, backend="eager")):
        row: list[Any] = []
        written.clear()
        for change in (
            (),
            ("__set__",),
            (),
            ("__delete__",),
            ("__set__", "__delete__"),
            ("__get__",),
            ("__get__", "__set__"),
            (),
        ):
            for name in names:
                if name in vars(_Changing):
                    delattr(_Changing, name)
            for name in change:
                setattr(_Changing, name, names[name])
            for _ in range(2):
                obj = _HasChanging()
                vars(obj)["one"] = 3
                try:
                    row.append(repr(run(torch.ones(2), obj)))
                except AttributeError as error:
                    row.append(str(error))
                row.append(dict(vars(obj)))
        rows.append((row, list(written)))
    assert rows[0] == rows[1]

"""Attributes of classes whose metaclass holds something under the same name: descriptors, functions, plain values."""

from __future__ import annotations

import enum
import functools
import sys
import typing
from typing import Any, ClassVar

import pytest
import torch

import framelift
from support import check

X = torch.ones(1)
LOG: list[Any] = []


class Data:
    def __get__(self, cls: Any, meta: Any = None) -> Any:
        LOG.append("get")
        return "data", cls.__name__

    def __set__(self, cls: Any, value: Any) -> None:
        LOG.append(value)


class NonData:
    def __get__(self, cls: Any, meta: Any = None) -> Any:
        return "non-data", cls.__name__


class SetOnly:
    def __set__(self, cls: Any, value: Any) -> None:
        LOG.append(value)


HELD = {
    "data": Data(),
    "non-data": NonData(),
    "set-only": SetOnly(),
    "property": property(lambda cls: (cls.__name__, 5)),
    "settable": property(lambda cls: 5, lambda cls, value: LOG.append(value)),
    "int": 7,
    "function": lambda cls, k=1: k,
    "builtin": len,
    "class": dict,
    "static": staticmethod(len),
    "cached": functools.lru_cache(lambda cls: 4),
    "partial": functools.partialmethod(max, "a"),
    "C method": str.upper,
}

Made: Any = None


def read(x: Any) -> Any:
    try:
        return x + 1, Made.q
    except Exception as error:
        return x, str(error)


def asked(x: Any) -> Any:
    try:
        return x + 1, getattr(Made, "q", "absent"), hasattr(Made, "q")
    except Exception as error:
        return x, str(error)


def written(x: Any) -> Any:
    LOG.append("begin")
    Made.q = 3
    return x + 1, Made.q


def called(x: Any) -> Any:
    try:
        return x + 1, Made.q()
    except Exception as error:
        return x, str(error)


def outcomes(program: Any, own: bool, first: str, then: str) -> list[Any]:
    """What three calls give.

    With `first` on the metaclass, with `then`, and with an attribute of the class's own gone.
    """
    global Made
    meta: Any = type("Meta", (type,), {})
    Made = meta("Made", (), {"q": 11} if own else {})
    LOG.clear()
    seen = []
    for held in (first, then, ""):
        if held:
            meta.q = HELD[held]
        elif "q" in vars(Made):
            del meta.q
            del Made.q
            meta.q = HELD[then]
        try:
            _, *found = program(X)
        except AttributeError as error:
            found = [str(error)]
        seen.append((*(getattr(one, "__name__", one) for one in found), vars(Made).get("q"), list(LOG)))
    return seen


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("then", HELD)
def test_what_a_metaclass_holds(then: str, own: bool) -> None:
    for program in (read, asked, written, called):
        for first in ("int", "property", then):
            framelift.reset()
            assert outcomes(framelift.compile(program, backend="eager"), own, first, then) == outcomes(
                program, own, first, then
            ), (program, first)


class Asking(type):
    """Whoever asks for the truth of a class runs code of the program."""

    def __len__(cls) -> int:
        return cls.nothing_of_the_kind


class Asked(metaclass=Asking):
    q = 3


def test_the_order_of_a_metaclasss_own_bases() -> None:
    def program(x):
        cls = type(Asked)
        return x + len(cls.__mro__), cls.__mro__, cls.__bases__, cls.__base__, type(cls).__mro__

    check(program, X)


def test_nobody_asks_for_the_truth_of_a_class() -> None:
    check(lambda x: x + Asked.q, X)


KIND = typing.TypeVar("KIND")  # on CPython 3.12 it looks at the frame that makes it


def test_classes_that_stay_as_they_are() -> None:
    def program(x: Any) -> Any:
        said = []
        for cls, name in ((int, "extra"), (list, "append"), (float, "__annotations__")):
            for change in (lambda: setattr(cls, name, 3), lambda: delattr(cls, name)):
                try:
                    change()
                except TypeError as error:
                    said.append(str(error))
        return x, said, type[int](3)

    check(program, X, graphs=None)


class Table:
    kind = "table"

    @classmethod
    def made(cls) -> Any:
        return {"by": cls.__name__}

    @staticmethod
    def size() -> int:
        return 1

    def plain(self) -> int:
        return 1


class Wide(Table):
    kind = "wide"

    @classmethod
    def made(cls) -> Any:
        found = super().made()
        found["above"], found["size"], found["plain"] = super().kind, super().size(), super().plain(None)
        return found

    @staticmethod
    def size() -> int:
        return 2

    def plain(self) -> int:
        return 2


def test_what_super_finds_is_not_what_the_class_has() -> None:
    def program(x: Any) -> Any:
        return (
            x + 1,
            [Wide.made() for _ in range(3)],
            Wide.kind,
            Wide.size(),
            Wide.plain(None),
            [super(Wide, Wide).made(), Wide.made()],
        )  # type: ignore[arg-type]

    check(program, X)


def test_a_classmethod_of_no_callable() -> None:
    def program(x: Any) -> Any:
        made = classmethod("text")  # type: ignore[arg-type]
        bound = made.__get__(None, int)
        try:
            bound()  # type: ignore[operator]
        except TypeError as error:
            return x + 1, str(error)

    check(program, X, graphs=None, breaks=None)


def test_dir_of_a_class_whose_metaclass_answers() -> None:
    class Meta(type):
        def __dir__(cls) -> list[str]:
            return [*cls.named, *(name for name in super().__dir__() if name == "own")]

    class Named(metaclass=Meta):
        named: ClassVar[list[str]] = ["b", "a"]
        own = 1

    class Colour(enum.IntEnum):
        RED = 1

        def method(self) -> None: ...

    def f(x):
        return x + 1, dir(Named), dir(Colour), dir(Colour.RED), sorted(type.__dir__(Named))

    compiled = framelift.compile(f, backend="eager")
    for named in (["b", "a"], ["b", "a"], ["c"]):
        Named.named = named
        assert compiled(X)[1:] == f(X)[1:]
    with pytest.raises(TypeError):
        framelift.compile(lambda x: (x + 1, type.__dir__(x)), backend="eager")(3)

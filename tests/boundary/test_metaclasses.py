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


class _Meta(type):
    def __repr__(cls) -> str:
        return f"<{cls.__name__}>"


class _Entries:
    def __mro_entries__(self, bases: Any) -> Any:
        return (dict, _Meta("Added", (), {"one": len(bases)}))


def test_classes_made_by_calling_a_metaclass() -> None:
    def program(x: Any) -> Any:
        made = _Meta("Made", (), {"two": 2})

        class Derived(made):  # type: ignore[misc, valid-type]
            pass

        return x + made.two, repr(made), repr(Derived), type(Derived) is _Meta, isinstance(Derived(), made)

    check(program, X)


KIND = typing.TypeVar("KIND")  # on CPython 3.12 it looks at the frame that makes it


def test_bases_that_are_no_classes() -> None:
    def program(x: Any) -> Any:
        class Box(typing.Generic[KIND]):
            def __init__(self, held: Any) -> None:
                self.held = held

        class Odd(_Entries(), metaclass=_Meta):  # type: ignore[misc]
            pass

        class Ints(list[int]):
            pass

        box = Box[int](3)
        return (
            x + box.held,
            Box.__parameters__ == (KIND,),
            len(Box.__orig_bases__),
            Odd.one,
            Odd(a=1)["a"],
            len(Odd.__orig_bases__),
            Ints.__bases__,
            Ints((1, 2)) + [3],
            Ints.__orig_bases__,
        )

    check(program, X, graphs=None, breaks=None)  # typing keeps the alias of a class made inside, which is a graph break


def test_modules_of_classes_made_by_calls() -> None:
    def program(x: Any) -> Any:
        seen: list[Any] = []

        class New(type):
            def __new__(meta, name: str, bases: Any, names: Any) -> Any:
                return super().__new__(meta, name, bases, names)

        class Init(type):
            def __init__(cls, name: str, bases: Any, names: Any) -> None:
                seen.append((cls.__module__, list(names)))

        class Under(Init):
            pass

        class Base(metaclass=Under):
            pass

        plain = type("Plain", (), {"y": 1})
        space: dict[str, Any] = {"__name__": "elsewhere"}
        exec("made = type('Made', (), {})", space)
        made = [
            plain,
            New("A", (), {}),
            Init("B", (), {"z": 1}),
            Init("C", (Base,), {}),
            type("D", (Base,), {}),
            type.__new__(Init, "E", (Base,), {}),
            space["made"],
        ]
        return x, [(cls.__module__, type(cls).__name__) for cls in made], seen, list(vars(plain)), repr(plain)

    check(program, X, graphs=None)


def test_an_init_that_returns_something() -> None:
    class Odd(type):
        def __init__(cls, *args: Any) -> Any:  # type: ignore[misc]
            return 3

    def program(x: Any) -> Any:
        try:
            Odd("A", (), {})
        except TypeError as error:
            return x + 1, str(error)

    check(program, X)


class Documented(type):
    count = 0

    def __init__(cls, name: str, bases: Any, names: Any, **more: Any) -> None:
        super().__init__(name, bases, names)
        cls.__doc__, cls.more = name.lower(), more
        cls.made = len(names)


def test_an_init_of_a_metaclass_changes_the_new_class() -> None:
    def program(x: Any) -> Any:
        class Base(metaclass=Documented):
            def __init_subclass__(cls, **more: Any) -> None:
                cls.seen = sorted(more)

        class Inner(Base, key=2):
            y = 1

        return (
            x + Inner.y,
            Inner.__doc__,
            Inner.more,
            Inner.seen,
            Inner.made,
            Base.__doc__,
            Inner.__module__,
            type(Inner) is Documented,
        )

    check(program, X)


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


def test_an_instance_of_a_class_made_inside_by_a_metaclass_that_calls_up():
    class Counting(type):
        def __len__(cls):
            return 3

        def __getattr__(cls, name):
            raise AttributeError(name)

        def __call__(cls, *args):
            return super().__call__(*args)

    class Plain:
        pass

    class Made(Plain, metaclass=Counting):
        def __init__(self, value):
            self.value = value

    def f(x):
        found = type("Inside", (Made,), {})(8).value
        return x + 1, found

    check(f, torch.ones(2), captures=None)


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


def test_a_key_of_a_namespace_that_compares_itself() -> None:
    """Each lookup in such a class may run the program's code."""

    def f(x):
        class Key:
            def __hash__(self) -> int:
                return hash("found")

            def __eq__(self, other: object) -> bool:
                made.__bases__ = (Second,)
                return False

        class First:
            found = 1

        class Second:
            found = 2

        made = type("Made", (First,), {Key(): 5})
        return x + made.found, made.found

    check(f, torch.ones(2), graphs=None, breaks=None)

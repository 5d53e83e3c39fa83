"""Classes made inside.

While they are rehearsed, and when a rehearsal is thrown away, nobody finds them among the subclasses of their bases.
"""

from __future__ import annotations

import abc
import ctypes
import dataclasses
import enum
import gc
import sys
import threading
import types
import typing

import pytest
import torch

import framelift
from support import check


def _world() -> types.SimpleNamespace:
    class Plain:
        pass

    class Old(Plain):
        pass

    class Hooked:
        names: list[str] = []

        def __init_subclass__(cls, **more):
            cls.names.append(cls.__name__)

    class Meta(type):
        names: list[str] = []

        def __new__(meta, name, bases, namespace):
            meta.names.append(name)
            return super().__new__(meta, name, bases, namespace)

    class WithMeta(metaclass=Meta):
        pass

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def go(self): ...

    class Choice(enum.Enum):
        pass

    class Tensor(torch.Tensor):
        pass

    class Structure(ctypes.Structure):
        pass

    class Module(torch.nn.Module):
        pass

    class Generic(typing.Generic[typing.TypeVar("T")]):
        pass

    class Failure(Exception):
        pass

    return types.SimpleNamespace(**locals())


def _names(cls):
    return [one.__name__ for one in cls.__subclasses__()]


def _by_call(w, x):
    made = type("Made", (w.Plain,), {})
    return x * len(w.Plain.__subclasses__()), made.__name__, _names(w.Plain)


def _by_statement(w, x):
    class First(w.Plain):
        weight = 2

    class Second(First):
        pass

    return x * First.weight, _names(w.Plain), _names(First), _names(Second)


def _by_a_hook(w, x):
    class Made(w.Hooked):
        pass

    return x + 1, _names(w.Hooked), list(w.Hooked.names)


def _by_a_metaclass(w, x):
    class Made(w.WithMeta):
        pass

    return x + 1, _names(w.WithMeta), list(w.Meta.names)


def _of_an_abstract_class(w, x):
    class Made(w.Abstract):
        def go(self):
            return 2

    return x * Made().go(), _names(w.Abstract), isinstance(Made(), w.Abstract), issubclass(int, w.Abstract)


def _registered(w, x):
    class Made(w.Abstract):
        def go(self):
            return 2

    Made.register(int)
    return x + 1, isinstance(3, Made), isinstance(3, w.Abstract), issubclass(str, w.Abstract), _names(w.Abstract)


def _dataclass(w, x):
    @dataclasses.dataclass
    class Made(w.Plain):
        a: int = 2

    return x * Made().a, _names(w.Plain)


def _by_new_class(w, x):
    made = types.new_class("Made", (w.Plain,), {}, lambda namespace: namespace.update(k=3))
    return x * made.k, _names(w.Plain)


def _choice(w, x):
    class Made(w.Choice):
        ONE = 1
        TWO = 2

    return x * Made.TWO.value, _names(w.Choice)


def _tensor(w, x):
    class Made(w.Tensor):
        weight = 2

    return x * Made.weight, _names(w.Tensor)


def _structure(w, x):
    class Made(w.Structure):
        _fields_ = [("a", ctypes.c_int)]

    return x * Made(3).a, _names(w.Structure)


def _module(w, x):
    class Made(w.Module):
        def forward(self, x):
            return x * 2

    return Made()(x), _names(w.Module)


def _generic(w, x):
    class Made(w.Generic[int]):
        weight = 2

    return x * Made.weight, _names(w.Generic)


def _exception(w, x):
    class Made(w.Failure):
        pass

    try:
        raise Made("said")
    except w.Failure as error:
        kind = type(error).__name__
    return x + 1, kind, _names(w.Failure)


def _nobody_reads_it_again(w, x):
    class Made(w.Plain):
        weight = 2

    y = x * Made.weight
    sys.getsizeof(w.Plain)
    return y + 1, _names(w.Plain)


def _only_an_instance(w, x):
    made = type("Made", (w.Plain,), {})()
    y = x * bool(made)
    sys.getsizeof(w.Plain)
    return y + 1, _names(w.Plain)


def _changed_between(w, x):
    class Made(w.Plain):
        pass

    made = Made()
    w.Plain.said = 5
    found = [made.said, Made.said]
    sys.getsizeof(w.Plain)
    w.Plain.said = 6
    return x + 1, [*found, made.said, Made.said], _names(w.Plain)


def _given_other_bases(w, x):
    class Made(w.Plain):
        pass

    Made.__bases__ = (w.Old,)
    return x + 1, Made.__mro__[1].__name__, _names(w.Plain), _names(w.Old)


def _walked(w, x):
    class Made(w.Old):
        pass

    found, waiting = [], [w.Plain]
    while waiting:
        cls = waiting.pop()
        found.append(cls.__name__)
        waiting += type.__subclasses__(cls)
    return x + 1, found


def _raises(w, x):
    class Made(w.Plain):
        pass

    raise w.Failure(str(_names(w.Plain)))


def _rows(program, wrap):
    world, rows = _world(), []
    target = wrap(lambda x: program(world, x))
    for _ in range(3):
        try:
            found = target(torch.ones(2))
            rows.append([part.tolist() if type(part) is torch.Tensor else part for part in found])
        except world.Failure as error:
            rows.append(str(error))
        gc.collect()  # the class of this call
    return rows


PROGRAMS = [
    _by_call,
    _by_statement,
    _by_a_hook,
    _by_a_metaclass,
    _of_an_abstract_class,
    _registered,
    _dataclass,
    _by_new_class,
    _choice,
    _tensor,
    _structure,
    _module,
    _generic,
    _exception,
    _nobody_reads_it_again,
    _only_an_instance,
    _changed_between,
    _given_other_bases,
    _walked,
    _raises,
]


@pytest.mark.usefixtures("plain_guards", "small_heap")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_class_made_inside_is_listed_once(program) -> None:
    """Nothing is collected meanwhile: what a rehearsal made and threw away is still there."""
    gc.collect()
    gc.disable()
    try:
        assert _rows(program, lambda f: framelift.compile(f, backend="eager")) == _rows(program, lambda f: f)
    finally:
        gc.enable()


def test_classes_made_inside_pass_changes_on() -> None:
    class Plain:
        pass

    def f(x):
        class First(Plain):
            weight = 2

        class Second(First):
            pass

        made = Second()
        found = [Second.weight, made.weight]
        First.weight = 3
        First.__len__ = lambda self: 4
        return x * Second.weight, [*found, Second.weight, made.weight, len(made)]

    given = framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert given[1] == [2, 2, 3, 3, 4] and given[0].tolist() == [3.0, 3.0]


def test_other_threads_do_not_see_what_is_rehearsed() -> None:
    class Plain:
        pass

    seen, over = set(), threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.update(one.__name__ for one in Plain.__subclasses__())

    def f(x):
        made = [type("Made", (Plain,), {"weight": i}) for i in range(200)]
        return x * sum(one.weight for one in made)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        given = framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(1))
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert given.item() == sum(range(200)) and seen == set()


def test_subclasses_of_a_class_made_inside() -> None:
    def f(x):
        class First: ...

        class Second(First): ...

        class Third(First): ...

        names = [one.__name__ for one in First.__subclasses__()]
        return x + len(names), names, Second.__subclasses__(), Third in First.__subclasses__()

    check(f, torch.ones(2), calls=2, graphs=None, breaks=None)


def test_subclasses_that_may_have_been_collected() -> None:
    def f(x):
        class First: ...

        def make() -> None:
            class Second(First): ...

        make()
        gc.collect()
        return x + 1, [one.__name__ for one in First.__subclasses__()]

    check(f, torch.ones(2), graphs=None, breaks=None)

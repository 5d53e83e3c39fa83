"""`object.__getattribute__` and its kind, and `super()` over fields of C code.

What they find is guarded, whatever object they are asked of.
"""

from __future__ import annotations

import array
import collections
import ctypes
import datetime
import io
import types
from typing import Any

import numpy
import pytest
import torch

import framelift
from support import check


def make() -> types.SimpleNamespace:
    """Fresh classes and objects whose `k` is 2."""

    class Own:
        k = 2

        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, name)

    class Below(Own):
        def __getattribute__(self, name: str) -> Any:
            return super().__getattribute__(name)

    class Row(tuple):
        k = 2

    class Table(dict):
        k = 2

    def function() -> None:
        pass

    module = types.ModuleType("module")
    tensor = torch.ones(2)
    for one in (function, module, tensor):
        one.k = 2  # type: ignore[attr-defined]
    return types.SimpleNamespace(
        Own=Own,
        Below=Below,
        Row=Row,
        row=Row((1,)),
        Table=Table,
        table=Table(a=1),
        function=function,
        module=module,
        tensor=tensor,
    )


READS: dict[str, tuple[str, Any]] = {
    "instance made inside": ("Own", lambda x, e: x * e.Own().k),
    "instance made inside, by super": ("Own", lambda x, e: x * e.Below().k),
    "tuple": ("Row", lambda x, e: x * object.__getattribute__(e.row, "k")),
    "tuple made inside": ("Row", lambda x, e: x * object.__getattribute__(e.Row((1,)), "k")),
    "dict": ("Table", lambda x, e: x * object.__getattribute__(e.table, "k")),
    "class": ("Own", lambda x, e: x * object.__getattribute__(e.Own, "k")),
    "function": ("function", lambda x, e: x * object.__getattribute__(e.function, "k")),
    "module": ("module", lambda x, e: x * object.__getattribute__(e.module, "k")),
    "tensor": ("tensor", lambda x, e: x * object.__getattribute__(e.tensor, "k")),
}


def runs(program: Any, owner: str, framelift_compile: Any) -> list[Any]:
    world, x = make(), torch.ones(2)
    run = framelift_compile(program)
    found = []
    for value in (2, 2, 9, 2.5):
        setattr(getattr(world, owner), "k", value)
        found.append((run(x, world).tolist(), getattr(world, owner).k))
    return found


@pytest.mark.parametrize("read", READS)
def test_what_the_generic_read_finds_is_guarded(read: str) -> None:
    from support import compiled

    owner, program = READS[read]
    assert runs(program, owner, compiled) == runs(program, owner, lambda f: f)


@pytest.mark.parametrize("owner", ["function", "tensor", "module"])
@pytest.mark.parametrize("deletes", [False, True])
def test_the_generic_write_happens_once_and_at_the_end(owner: str, deletes: bool) -> None:
    from support import compiled

    def program(x: torch.Tensor, world: Any) -> torch.Tensor:
        target = getattr(world, owner)
        object.__setattr__(target, "k", target.k + 1)
        result = x * target.k
        if deletes:
            object.__delattr__(target, "k")
            target.k = 4
        return result

    assert runs(program, owner, compiled) == runs(program, owner, lambda f: f)


def test_super_over_fields_of_c_code() -> None:
    class Slots:
        __slots__ = ("k",)

    class Below(Slots):
        pass

    def program(x: torch.Tensor, day: datetime.datetime, obj: Any) -> Any:
        return x * super(Below, obj).k, super(datetime.datetime, day).year

    def change(number: int, world: Any) -> None:
        world.args[2].k = number * 3
        world.args[1] = datetime.datetime(2020 + number, 1, 1)

    obj = Below()
    obj.k = 2
    check(
        program,
        torch.ones(2),
        datetime.datetime(2020, 1, 2),
        obj,
        calls=3,
        mutate=change,
        graphs=None,
        breaks=None,
        captures=None,
    )


def test_the_length_of_a_deque_is_its_own() -> None:
    """Guards ask neither `__len__` nor `__getitem__` of a subclass."""

    class Odd(collections.deque):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: Any) -> Any:
            return 7

    def program(x: torch.Tensor, d: Any) -> Any:
        return x + 1, [v for v in d]

    def change(number: int, world: Any) -> None:
        world.args[1].append(number) if number < 3 else collections.deque.__setitem__(world.args[1], 0, 8)

    check(program, torch.ones(2), Odd([1, 2, 3]), calls=5, mutate=change, graphs=None, breaks=None, captures=None)


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int)]
    k = 2


UNKNOWN = {
    "structure": lambda: Pair(1),
    "array": lambda: array.array("d", [1.0]),
    "stream": io.StringIO,
    "numpy array": lambda: numpy.arange(3),
}
GENERIC = {
    "read": lambda o, name: object.__getattribute__(o, name),
    "write": lambda o, name: object.__setattr__(o, name, 5),
    "delete": lambda o, name: object.__delattr__(o, name),
    "super": lambda o, name: super(type(o), o).__getattribute__(name),
}


@pytest.mark.parametrize("use", GENERIC)
@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.parametrize("name", ["k", "typecode", "ndim"])
def test_generic_uses_of_an_object_of_an_unknown_type(kind: str, use: str, name: str) -> None:
    """What is found on its placeholder says nothing about the object."""

    def program(x: Any, o: Any) -> Any:
        try:
            found = GENERIC[use](o, name)
        except (AttributeError, TypeError) as error:
            found = str(error)
        return x + 1, found

    check(program, torch.ones(2), UNKNOWN[kind](), graphs=None, breaks=None)


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__mro__", "missing"])
@pytest.mark.parametrize("cls", [type(None), type(...), type(NotImplemented), int, torch.dtype])
def test_attributes_of_the_classes_of_single_values(cls: type, name: str) -> None:
    check(lambda x: (x + 1, getattr(cls, name, "none")), torch.ones(2), captures=1, breaks=0)


class Sub(torch.Tensor):
    pass


@pytest.mark.parametrize("cls", [torch.Tensor, Sub, torch.nn.Parameter])
def test_an_attribute_of_a_tensor_hides_a_method(cls: type) -> None:
    tensor = cls(torch.ones(2)) if cls is torch.nn.Parameter else torch.ones(2).as_subclass(cls)
    program = lambda x, t: x + t.sigmoid()  # noqa: E731
    compiled = framelift.compile(program, backend="eager")
    x = torch.ones(2)
    plain = compiled(x, tensor)
    tensor.sigmoid = lambda: 7  # type: ignore[method-assign]
    assert torch.equal(compiled(x, tensor), x + 7)
    del tensor.sigmoid
    assert torch.equal(compiled(x, tensor), plain)

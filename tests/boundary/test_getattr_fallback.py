"""`__getattr__` is asked whenever a read raises AttributeError.

Also where a property, a descriptor or an empty slot raised it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Falls:
    """A property that raises, and an answer for it."""

    @property
    def odd(self) -> int:
        raise AttributeError("odd")

    @property
    def size(self) -> int:
        return self.count + 1

    def __getattr__(self, name: str) -> int:
        if name == "count":
            raise AttributeError(name)
        return len(name)


class Raises:
    """A property that raises, and no answer for it."""

    @property
    def odd(self) -> int:
        raise AttributeError("no odd")


class Plain:
    """A descriptor that raises."""

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        raise AttributeError("descriptor")


class Data(Plain):
    """The same, before the instance."""

    def __set__(self, obj: Any, value: Any) -> None:
        pass


class Described:
    """Descriptors that raise, and an answer for them."""

    plain, data = Plain(), Data()

    def __getattr__(self, name: str) -> int:
        return 11


class Slot:
    """A slot that may be empty."""

    __slots__ = ("a",)

    def __getattr__(self, name: str) -> int:
        return 12


class Refuses:
    """Both ways raise."""

    def __getattribute__(self, name: str) -> Any:
        if name == "q":
            raise AttributeError("q")
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Meta(type):
    """A property of a class that raises, and an answer for it."""

    @property
    def odd(cls) -> int:
        raise AttributeError("odd of a class")

    @property
    def size(cls) -> int:
        return cls.count + 1  # type: ignore[attr-defined, no-any-return]

    def __getattr__(cls, name: str) -> int:
        if name == "count":
            raise AttributeError(name)
        return 21


class Made(metaclass=Meta):
    count = 4


class Net(torch.nn.Module):
    """torch's own `__getattr__` says that the property is missing."""

    @property
    def odd(self) -> Any:
        return self.missing


class Tensor(torch.Tensor):
    @property
    def odd(self) -> int:
        raise AttributeError("odd of a tensor")

    def __getattr__(self, name: str) -> int:
        return 13


falls, raises, described, slot, refuses, net = Falls(), Raises(), Described(), Slot(), Refuses(), Net()
tensor = torch.ones(2).as_subclass(Tensor)


def _chain(x: torch.Tensor) -> Any:
    try:
        return refuses.q
    except KeyError as error:
        return x, repr(error.__context__)


def _slot(x: torch.Tensor) -> Any:
    slot.a = 3
    first = slot.a
    del slot.a
    return x * first, slot.a


def _deleted(x: torch.Tensor) -> Any:
    del Made.count
    try:
        return x * Made.size  # type: ignore[operator]
    finally:
        Made.count = 4


def _put_on(x: torch.Tensor) -> Any:
    Raises.__getattr__ = lambda self, name: 99  # type: ignore[attr-defined]
    found = x * raises.odd
    del Raises.__getattr__  # type: ignore[attr-defined]
    return found


def _inside(x: torch.Tensor) -> Any:
    one = Falls()
    return x * one.odd, one.size, Described().plain, Described().data, Slot().a


def _tell(program: Callable[..., Any]) -> str:
    try:
        return repr(program(torch.ones(2)))
    except Exception as error:  # noqa: BLE001  part of what is compared
        return f"{type(error).__name__}: {error} after {error.__context__!r}"


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x * falls.odd * falls.odd, falls.size, hasattr(falls, "odd")),
        lambda x: x * raises.odd,
        lambda x: (x * getattr(raises, "odd", 3), hasattr(raises, "odd")),
        lambda x: (x * described.plain, described.data, described.plain),
        lambda x: (x * slot.a, slot.b),
        lambda x: x * refuses.q,
        lambda x: (x * Made.odd, Made.odd, hasattr(Made, "size")),
        lambda x: x * net.odd,
        lambda x: x * getattr(net, "odd", 5),
        lambda x: x * tensor.odd,
        lambda x: [getattr(one, "odd", None) for one in (falls, raises, Made)],
        _chain,
        _slot,
        _deleted,
        _put_on,
        _inside,
    ],
)
def test_reads_fall_back(program: Callable[..., Any]) -> None:
    framelift.reset()
    want = [_tell(program) for _ in range(3)]
    run = framelift.compile(program, backend="eager")
    assert [_tell(run) for _ in range(3)] == want


def test_a_module_with_getattr() -> None:
    framelift.reset()
    module = types.ModuleType("answering")
    exec(
        "def __getattr__(name):\n    if name == 'none':\n        raise AttributeError(name)\n    return 4", vars(module)
    )

    def program(x: torch.Tensor) -> Any:
        return x * module.some, hasattr(module, "none")

    want = repr(program(torch.ones(2)))
    assert repr(framelift.compile(program, backend="eager")(torch.ones(2))) == want

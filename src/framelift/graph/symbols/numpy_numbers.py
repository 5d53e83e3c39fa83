"""Scalars of numpy that change from call to call: `NumpyNumber` behaves as numpy's scalar does, and notes what it was
asked.

Numpy's arithmetic is numpy's own affair: what is calculated from such a scalar is calculated by numpy at every
call, before the graph, just as the program wrote it.  An operation of torch takes it for a plain number, which is
then an input of the graph.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _core
from ..._core import is_a
from ...vocabulary.class_reads import mro_of, name_of
from ...vocabulary.plain_types import SCALAR_MODULES
from ...vocabulary.reasons import Interrupt
from ...vocabulary.torch_code import is_torch_class
from .numbers import ARITHMETIC, Float, Int, function_named

try:
    import numpy
except ImportError:
    numpy = None

#: the scalars whose value a plain number holds exactly and that torch takes for one
SCALARS: frozenset[type] = (
    frozenset()
    if numpy is None
    else frozenset(
        {
            numpy.int8,
            numpy.int16,
            numpy.int32,
            numpy.int64,
            numpy.uint8,
            numpy.uint16,
            numpy.uint32,
            numpy.float16,
            numpy.float32,
            numpy.float64,
        }
    )
)


SCALAR_MODULES.add("numpy")
for _cls in (Int, Float):
    _cls.__array_ufunc__ = None  # numpy's own operators leave it to the methods of these


class NumpyNumber(torch.SymFloat):
    """A scalar of numpy's.  `hint` is its value in this call, `name` what the lines before the graph call it."""

    __slots__ = ("home", "name", "hint")  # in the class: `SymFloat.hint` is a property
    __array_ufunc__ = None  # numpy's own operators leave it to the methods here

    def __init__(self, home: Any, name: str, hint: Any) -> None:
        self.home = home
        self.name = name
        self.hint = hint

    __class__ = property(lambda self: type(self.hint))

    @property
    def key(self) -> Any:
        """Equal for equal expressions."""
        return ("numpy", self.name)

    def value(self) -> Any:
        """The scalar of this call; from here on it is a constant of the capture."""
        return self.home.fix_scalar(self)

    def item(self, *args: Any) -> Any:
        """The plain number."""
        return self.value().item(*args) if args else self.home.outside(_item, (self,))

    def tolist(self) -> Any:
        """The plain number."""
        return self.home.outside(_item, (self,))

    def __bool__(self) -> bool:
        return self.home.noted(bool, (self,))

    def __iter__(self) -> Any:
        return iter(self.value())  # raises: without this, `__getitem__` would make it a sequence

    def __contains__(self, item: Any) -> bool:
        return item in self.value()  # raises too

    def as_float(self) -> Any:
        """float(self)"""
        return self.home.outside(float, (self,))

    def as_int(self) -> Any:
        """int(self)"""
        return self.home.outside(int, (self,))

    def __copy__(self) -> NumpyNumber:
        return self

    def __deepcopy__(self, _memo: Any) -> NumpyNumber:
        return self


def quiet() -> Any:
    """Numpy says what it thinks of a calculation when that is done for the program, not before."""
    return numpy.errstate(all="ignore")


def same_text(value: Any, text: str) -> bool:
    """Return whether a scalar of numpy's prints as this one does."""
    return repr(value) == text


def _item(value: Any) -> Any:
    return value.item()


def _says_itself(kind: type, func: Callable[..., Any]) -> bool:
    """Return whether a class of the operand's says in Python what an operator does: numpy leaves that to it."""
    name = func.__name__.strip("_")
    names = (name, _MIRRORED.get(name, "r" + name))
    return _core.is_python_class(kind) and any(
        is_a(getattr(kind, f"__{one}__", None), types.FunctionType) for one in names
    )


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _binary(func: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    def method(self: NumpyNumber, other: Any) -> Any:
        if type(other) in (int, float, bool, Int, Float, NumpyNumber) or type(other) in SCALARS:
            return self.home.outside(func, (other, self) if swap else (self, other))
        kind = type(other)
        if issubclass(kind, torch.Tensor) or any(is_torch_class(base, "torch._numpy") for base in mro_of(kind)):
            return NotImplemented
        said = _says_itself(kind, func)
        result = None if said else func(*((other, self.value()) if swap else (self.value(), other)))
        if said or is_a(result, numpy.ndarray):
            raise Interrupt("unknown-callable", f"numpy.{func.__name__.strip('_')} of a scalar and a {name_of(kind)}")
        return result

    return method


def _unary(func: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: NumpyNumber) -> Any:
        return self.home.outside(func, (self,))

    return method


def _through(name: str) -> Callable[..., Any]:
    """A method that needs the value itself."""

    def method(self: NumpyNumber, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.value(), name)(*args, **kwargs)

    return method


def _fact(name: str) -> Any:
    """Return an attribute that a scalar's class alone decides."""
    return property(lambda self: getattr(self.hint, name))


def _read_through(name: str) -> property:
    return property(lambda self: getattr(self.value(), name))


for _name in (*ARITHMETIC, "and", "or"):
    setattr(NumpyNumber, f"__{_name}__", _binary(function_named(_name), False))
    setattr(NumpyNumber, f"__r{_name}__", _binary(function_named(_name), True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(NumpyNumber, f"__{_name}__", _binary(function_named(_name), False))
for _name in ("neg", "pos", "abs"):
    setattr(NumpyNumber, f"__{_name}__", _unary(function_named(_name)))
for _name in ("dtype", "ndim", "shape", "size", "itemsize", "nbytes"):
    setattr(NumpyNumber, _name, _fact(_name))
_OWN = frozenset(vars(NumpyNumber)) | frozenset(vars(object)) - {
    "__hash__",
    "__repr__",
    "__str__",
    "__format__",
    "__reduce__",
    "__reduce_ex__",
    "__sizeof__",
}
for _name in (
    {name for kind in (torch.SymFloat, int, *SCALARS) for name in dir(kind)}
    - _OWN
    - {"__dict__", "__weakref__", "__module__"}
):
    if callable(getattr(next(kind for kind in (int, *SCALARS, torch.SymFloat) if hasattr(kind, _name)), _name)):
        setattr(NumpyNumber, _name, _through(_name))
    else:
        setattr(NumpyNumber, _name, _read_through(_name))


#: functions that make a tensor of data look at numpy's class
_OF_DATA = frozenset("tensor as_tensor asarray new_tensor scalar_tensor from_numpy Tensor".split())


def given_to_torch(func: Any, value: Any) -> Any:
    """Convert an argument of an operation: a plain number where torch takes one, else the scalar of this call."""
    kind = type(value)
    if kind is NumpyNumber:
        return value.value() if getattr(func, "__name__", "tensor") in _OF_DATA else value.item()
    if kind in (list, tuple, torch.Size) and any(type(part) in (NumpyNumber, list, tuple, slice) for part in value):
        return kind([given_to_torch(func, part) for part in value])
    if kind is slice:
        return slice(*(given_to_torch(func, part) for part in (value.start, value.stop, value.step)))
    if kind is dict:
        return {name: given_to_torch(func, part) for name, part in value.items()}
    return value

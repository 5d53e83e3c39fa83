"""State that a call may change, saved so that it can run twice: all that its function reaches, as it is now.

Followed are arguments, closures, the globals and the modules' attributes that the code names, containers, instances and
classes of the program.  What cannot be put back (a generator, an iterator, a file) raises `NotRepeatable`, as does a
tensor with a history, which can be gone through once.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import logging
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._core import is_a
from ..backends.correctness import difference
from ..python import ROWS
from ..torch_ports.autograd import unsafe_set_version_counter
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import built_in_member
from ..vocabulary.own_code import FRAMELIFT
from ..vocabulary.torch_code import TORCH

try:
    import numpy
except ImportError:
    numpy = None

_ABSENT = object()
_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size)
#: what they give or take cannot be taken back
_SPENT = (
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, enumerate, zip, map, filter, io.IOBase),
    *map(type, (iter([]), iter(()), iter(range(0)), iter(""), iter(b""), reversed([]))),
    *(random.Random, torch.Generator),
)


class NotRepeatable(Exception):
    """A call cannot be run twice."""


@dataclasses.dataclass(frozen=True)
class _Changeable:
    """Something that may change: reading it gives a value that compares, putting back takes that value."""

    words: str
    read: Callable[[], Any]
    put_back: Callable[[Any], None]


class Reached:
    """All that a call may change, and what it is now."""

    def __init__(self, roots: list[Any]) -> None:
        self._met: dict[int, Any] = {}
        self._places: list[_Changeable] = []
        self._names: set[str] = set()
        self._gradients: set[int] = set()
        self._waiting = list(roots)
        while self._waiting:
            self._meet(self._waiting.pop(0))
        self._before = self._read()

    def _read(self) -> list[Any]:
        return [place.read() for place in self._places]

    def put_back(self) -> list[Any]:
        """Put everything back as it was, and return what it had become."""
        after = self._read()
        for place, before, now in zip(self._places, self._before, after):
            if not _is_same(before, now):
                place.put_back(before)
        return after

    def difference(self, wanted: list[Any]) -> str:
        """Return where what there is now differs from what it was to become, in words."""
        for place, want, now in zip(self._places, wanted, self._read()):
            found = compared(want, now, place.words, {})
            if found:
                return found
        return ""

    def _meet(self, value: Any) -> None:
        kind = type(value)
        if is_a(value, _LEAVES) or id(value) in self._met or is_a(value, logging.Logger) or _is_own(kind):
            return
        self._met[id(value)] = value
        if is_a(value, _SPENT):
            raise NotRepeatable(f"it reaches a {kind.__name__}, which cannot be put back")
        for base, follow in _FOLLOW.items():
            if is_a(value, base):
                follow(self, value)
                return
        if not _is_library(kind):
            self._waiting.append(kind)
        self._instance(value)

    def _add(self, words: str, read: Callable[[], Any], put_back: Callable[[Any], None]) -> None:
        self._places.append(_Changeable(words, read, put_back))

    def _variable(self, words: str, get: Callable[[], Any], put: Any, drop: Any, absent: type[Exception]) -> None:
        """A place that may be empty: reading raises `absent` then."""

        def read() -> Any:
            try:
                return get()
            except absent:
                return _ABSENT

        self._add(words, read, lambda held: drop() if held is _ABSENT else put(held))
        if (now := read()) is not _ABSENT:
            self._waiting.append(now)

    def _entry(self, table: dict[str, Any], name: str) -> None:
        put = functools.partial(table.__setitem__, name)
        self._variable(name, lambda: table[name], put, lambda: table.pop(name, None), KeyError)

    def _instance(self, value: Any) -> None:
        own = getattr(value, "__dict__", None) if not is_a(value, type) else None
        if type(own) is dict:
            self._mapping(own, f"attributes of a {type(value).__name__}")
        for cls in type(value).__mro__:
            for name, slot in vars(cls).items():
                if type(slot) is types.MemberDescriptorType and not _is_library(cls):
                    self._slot(value, name, slot)

    def _slot(self, value: Any, name: str, slot: Any) -> None:
        put, drop = functools.partial(slot.__set__, value), lambda: slot.__delete__(value)
        self._variable(name, lambda: slot.__get__(value), put, drop, AttributeError)

    def _mapping(self, table: Any, words: str = "a dictionary") -> None:
        clear, store, keys, values = (
            built_in_member(type(table), name) for name in ("clear", "__setitem__", "keys", "values")
        )

        def put_back(held: dict[Any, Any]) -> None:
            clear(table)
            for key, one in held.items():
                store(table, key, one)

        def read() -> dict[Any, Any]:
            return dict(zip(keys(table), values(table)))

        self._add(words, read, put_back)
        self._waiting += [*dict.keys(table), *dict.values(table)]
        if type(table) is not dict:
            self._instance(table)

    def _items(self, items: Any) -> None:
        fill = items.extend if hasattr(items, "extend") else items.update

        def put_back(held: Any) -> None:
            items.clear()
            fill(held)

        self._add(f"a {type(items).__name__}", lambda: type(items).copy(items), put_back)
        if not is_a(items, bytearray):
            self._waiting += list(items)
        self._instance(items)

    def _tensor(self, tensor: torch.Tensor) -> None:
        with DisableTorchFunction():
            if tensor.requires_grad and not tensor.is_leaf:
                raise NotRepeatable("it reaches a tensor with a history")
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
                raise NotRepeatable(f"it reaches a {type(tensor).__name__}")

        def read() -> torch.Tensor:
            with torch.no_grad():
                return tensor.detach().clone()

        def put_back(held: torch.Tensor) -> None:
            version = None if tensor.is_inference() else tensor._version
            with torch.no_grad():
                if tensor.shape == held.shape:
                    tensor.copy_(held)
                else:
                    tensor.set_(held)
            if version is not None:
                unsafe_set_version_counter((tensor,), (version,))

        self._add("a gradient" if id(tensor) in self._gradients else "a tensor", read, put_back)
        self._add("requires_grad", lambda: tensor.requires_grad, tensor.requires_grad_)
        if tensor.is_leaf:
            self._add("a gradient", lambda: tensor.grad, lambda held: setattr(tensor, "grad", held))
            self._gradients.add(id(tensor.grad))
            self._waiting.append(tensor.grad)
        self._instance(tensor)

    def _array(self, array: Any) -> None:
        def put_back(held: Any) -> None:
            array[...] = held

        if array.flags.writeable:
            self._add("an array", array.copy, put_back)

    def _function(self, function: types.FunctionType) -> None:
        if _is_file_of_library(function.__code__.co_filename):
            return
        self._waiting += [function.__defaults__, function.__kwdefaults__, *(function.__closure__ or ())]
        self._instance(function)
        names = _names_of(function.__code__)
        self._names |= names
        for name in sorted(names & function.__globals__.keys()):
            self._entry(function.__globals__, name)

    def _cell(self, cell: types.CellType) -> None:
        put, drop = functools.partial(setattr, cell, "cell_contents"), lambda: delattr(cell, "cell_contents")
        self._variable("a closure variable", lambda: cell.cell_contents, put, drop, ValueError)

    def _class(self, cls: type) -> None:
        if _is_library(cls) or cls.__flags__ & _IMMUTABLE:
            return

        def read() -> dict[str, Any]:
            return {name: one for name, one in vars(cls).items() if name not in ("__dict__", "__weakref__")}

        def put_back(held: dict[str, Any]) -> None:
            for name in [name for name in read() if name not in held]:
                type.__delattr__(cls, name)
            for name, one in held.items():
                if vars(cls).get(name, _ABSENT) is not one:
                    type.__setattr__(cls, name, one)

        self._add(f"attributes of {cls.__name__}", read, put_back)
        self._waiting += [*read().values(), *cls.__bases__]

    def _module(self, module: types.ModuleType) -> None:
        if _is_file_of_library(getattr(module, "__file__", None) or "<frozen >"):
            return
        for name in sorted(self._names & vars(module).keys()):
            self._entry(vars(module), name)

    def _parts(self, value: Any) -> None:
        self._waiting += list(value)

    def _wrapped(self, value: Any) -> None:
        names = ("__self__", "__func__", "fget", "fset", "func", "args", "keywords", "__wrapped__")
        self._waiting += [getattr(value, name) for name in names if hasattr(value, name)]


_IMMUTABLE = 1 << 8
_FOLLOW: dict[Any, Callable[[Reached, Any], None]] = {
    torch.Tensor: Reached._tensor,
    dict: Reached._mapping,
    (*ROWS, set, bytearray): Reached._items,
    (tuple, frozenset): Reached._parts,
    types.FunctionType: Reached._function,
    types.CellType: Reached._cell,
    types.ModuleType: Reached._module,
    type: Reached._class,
    (types.MethodType, staticmethod, classmethod, property, functools.partial): Reached._wrapped,
}
if numpy is not None:
    _FOLLOW[numpy.ndarray] = Reached._array


def _names_of(code: types.CodeType) -> set[str]:
    inner: Iterator[set[str]] = (_names_of(one) for one in code.co_consts if is_a(one, types.CodeType))
    return set(code.co_names).union(*inner)


#: functions, classes and modules of files here are not followed: what they keep for themselves is not the program's
_LIBRARIES = (
    "<frozen ",
    FRAMELIFT,
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    os.path.dirname(TORCH.rstrip(os.sep)) + os.sep,
)


def _is_file_of_library(file: str) -> bool:
    return file.startswith(_LIBRARIES)


def _is_own(kind: type) -> bool:
    return kind.__module__ == _ROOT or kind.__module__.startswith(f"{_ROOT}.")


_ROOT = __name__.partition(".")[0]


def _is_library(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return cls.__module__ != "__main__" and (type(file) is not str or _is_file_of_library(file))


def _is_same(before: Any, now: Any) -> bool:
    """Return whether a value that was read is made of the same objects."""
    if is_a(before, torch.Tensor) and is_a(now, torch.Tensor) and before is not now:
        return before.shape == now.shape and torch.equal(before, now)
    if type(before) is not type(now):
        return False
    if is_a(before, dict):
        return [*map(id, before)] == [*map(id, now)] and [*map(id, before.values())] == [*map(id, now.values())]
    if is_a(before, (*ROWS, set)):
        return [*map(id, before)] == [*map(id, now)]
    return before is now or is_a(before, (*_LEAVES, tuple, bytearray)) and bool(before == now)


def compared(want: Any, got: Any, path: str, pairs: dict[int, Any]) -> str:
    """Return where two values differ, in words.  What is the same object in both is compared on its own."""
    if want is got or id(want) in pairs:
        return ""
    pairs[id(want)] = want
    if type(want) is not type(got):
        return f"{path} is a {type(got).__name__} and not a {type(want).__name__}"
    if is_a(want, (*ROWS, tuple)):
        if len(want) != len(got):
            return f"{path} has {len(got)} items and not {len(want)}"
        steps = ((f"{path}[{i}]", one, other) for i, (one, other) in enumerate(zip(want, got)))
        return next((found for place, a, b in steps if (found := compared(a, b, place, pairs))), "")
    if is_a(want, dict):
        if list(want) != list(got):
            return f"{path} has the keys {list(got)} and not {list(want)}"
        return next((found for k in want if (found := compared(want[k], got[k], f"{path}[{k!r}]", pairs))), "")
    if is_a(want, types.FunctionType):
        return "" if want.__code__ == got.__code__ else f"{path} is another function"
    if not is_a(want, torch.Tensor) and type(want).__eq__ is object.__eq__:
        return compared(vars(want), vars(got), path, pairs) if hasattr(want, "__dict__") else ""
    return difference(want, got, path)

"""State that a call may change, saved so that it can run twice: all that its function reaches, as it is now.

Followed are arguments, closures, the globals and the modules' attributes that the code names, containers, instances and
classes of the program.  What cannot be put back (a generator, an iterator, a file) raises `NotRepeatable`, as does a
tensor with a history, which can be gone through once.
"""

from __future__ import annotations

import gc
import io
import logging
import random
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from .._core import is_a
from ..backends.correctness import difference
from ..graph.symbols.numpy_numbers import numpy
from ..python import ROWS
from ..report.gather import is_librarys
from ..torch_ports.autograd import unsafe_set_version_counter
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.class_reads import built_in_member

_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size)
#: what they give or take cannot be taken back
_SPENT = (
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, enumerate, zip, map, filter, io.IOBase),
    *map(type, (iter([]), iter(()), iter(range(0)), iter(""), iter(b""), reversed([]))),
    *(random.Random, torch.Generator),
)


class NotRepeatable(Exception):
    """A call cannot be run twice."""


class _State(NamedTuple):
    """Something that may change: reading it gives a value that compares, putting back takes that value."""

    words: str
    read: Callable[[], Any]
    put_back: Callable[[Any], Any]


class Reached:
    """All that a call may change, and what it is now; random generators of the process included."""

    def __init__(self, roots: list[Any]) -> None:
        self._met: dict[int, Any] = {}
        self._states = [_State("random numbers", _generators, _put_generators)]
        self._names: set[str] = set()
        self._waiting = list(roots)
        while self._waiting:
            self._meet(self._waiting.pop(0))
        self._before = self._read()

    def _read(self) -> list[Any]:
        return [state.read() for state in self._states]

    def put_back(self) -> list[Any]:
        """Put everything back as it was, and return what it had become."""
        after = self._read()
        for state, before, now in zip(self._states, self._before, after):
            if not _is_same(before, now):
                state.put_back(before)
        return after

    def difference(self, wanted: list[Any]) -> str:
        """Return where what there is now differs from what it was to become, in words."""
        rows = zip(self._states, wanted, self._read())
        return next((found for state, want, now in rows if (found := difference(want, now, state.words))), "")

    def _meet(self, value: Any) -> None:
        kind = type(value)
        if is_a(value, _LEAVES) or id(value) in self._met or is_a(value, logging.Logger):
            return
        if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:  # framelift's own
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

    def _add(self, words: str, read: Callable[[], Any], put_back: Callable[[Any], Any]) -> None:
        self._states.append(_State(words, read, put_back))

    def _variable(self, words: str, get: Callable[[], Any], put: Callable[[Any], Any], drop: Any) -> None:
        """A variable, which may be empty: reading raises then.  What is read is a row of one value, or of none."""

        def read() -> list[Any]:
            try:
                return [get()]
            except (AttributeError, KeyError, ValueError):
                return []

        self._add(words, read, lambda held: put(*held) if held else drop())
        self._waiting += read()

    def _variables(self, table: dict[str, Any]) -> None:
        """Those variables of a module that code names."""
        for name in sorted(self._names & table.keys()):
            put = partial(table.__setitem__, name)
            self._variable(name, partial(table.__getitem__, name), put, partial(table.pop, name, None))

    def _instance(self, value: Any) -> None:
        own = getattr(value, "__dict__", None) if not is_a(value, type) else None
        if type(own) is dict:
            self._mapping(own, f"attributes of a {type(value).__name__}")
        for cls in type(value).__mro__:
            for name, slot in vars(cls).items() if not _is_library(cls) else ():
                if type(slot) is types.MemberDescriptorType:
                    self._variable(
                        name,
                        partial(slot.__get__, value),
                        partial(slot.__set__, value),
                        partial(slot.__delete__, value),
                    )

    def _mapping(self, table: Any, words: str = "a dictionary") -> None:
        members = (built_in_member(type(table), name) for name in ("clear", "__setitem__", "keys", "values"))
        clear, store, keys, values = members

        def put_back(held: dict[Any, Any]) -> None:
            clear(table)
            for key, one in held.items():
                store(table, key, one)

        self._add(words, lambda: dict(zip(keys(table), values(table))), put_back)
        self._waiting += [*dict.keys(table), *dict.values(table)]
        if type(table) is not dict:
            self._instance(table)

    def _items(self, items: Any) -> None:
        fill = items.update if is_a(items, set) else items.extend
        self._add(
            f"a {type(items).__name__}", lambda: type(items).copy(items), lambda held: (items.clear(), fill(held))
        )
        self._waiting += items
        self._instance(items)

    def _tensor(self, tensor: torch.Tensor) -> None:
        with DisableTorchFunction():
            if tensor.requires_grad and not tensor.is_leaf:
                raise NotRepeatable("it reaches a tensor with a history")
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
                raise NotRepeatable(f"it reaches a {type(tensor).__name__}")

        @torch.no_grad()
        def put_back(held: torch.Tensor) -> None:
            version = None if tensor.is_inference() else tensor._version
            tensor.copy_(held) if tensor.shape == held.shape else tensor.set_(held)
            if version is not None:
                unsafe_set_version_counter((tensor,), (version,))

        self._add("a tensor", lambda: tensor.detach().clone(), put_back)
        self._add("requires_grad", lambda: tensor.requires_grad, tensor.requires_grad_)
        if tensor.is_leaf:
            self._add("a gradient", lambda: tensor.grad, partial(setattr, tensor, "grad"))
            self._waiting.append(tensor.grad)
        self._instance(tensor)

    def _array(self, array: Any) -> None:
        if array.flags.writeable:
            self._add("an array", array.copy, partial(array.__setitem__, ...))

    def _function(self, function: types.FunctionType) -> None:
        if not is_librarys(function.__code__.co_filename):
            self._waiting += [function.__defaults__, function.__kwdefaults__, *(function.__closure__ or ())]
            self._instance(function)
            self._names |= _names_of(function.__code__)
            self._variables(function.__globals__)

    def _cell(self, cell: types.CellType) -> None:
        name = "cell_contents"
        put, drop = partial(setattr, cell, name), partial(delattr, cell, name)
        self._variable("a closure variable", lambda: cell.cell_contents, put, drop)

    def _class(self, cls: type) -> None:
        if _is_library(cls) or cls.__flags__ & _IMMUTABLE:
            return

        def read() -> dict[str, Any]:
            return {name: one for name, one in vars(cls).items() if name not in ("__dict__", "__weakref__")}

        def put_back(held: dict[str, Any]) -> None:
            now = read()
            for name in now.keys() - held.keys():
                type.__delattr__(cls, name)
            for name, one in held.items():
                if now.get(name, now) is not one:
                    type.__setattr__(cls, name, one)

        self._add(f"attributes of {cls.__name__}", read, put_back)
        self._waiting += [*read().values(), *cls.__bases__]

    def _module(self, module: types.ModuleType) -> None:
        if not is_librarys(getattr(module, "__file__", None) or "<frozen >"):
            self._variables(vars(module))

    def _parts(self, value: Any) -> None:
        self._waiting += gc.get_referents(value)


def _generators() -> dict[str, Any]:
    """Return the states of the random generators of the process."""
    drawn = sys.modules.get("numpy.random")
    return {
        "torch": torch.get_rng_state(),
        "random": random.getstate(),
        "numpy": [*drawn.get_state()] if drawn is not None else [],
    }


def _put_generators(held: dict[str, Any]) -> None:
    torch.set_rng_state(held["torch"])
    random.setstate(held["random"])
    if held["numpy"]:
        sys.modules["numpy.random"].set_state(tuple(held["numpy"]))


_IMMUTABLE = 1 << 8
_FOLLOW: dict[Any, Callable[[Reached, Any], None]] = {
    torch.Tensor: Reached._tensor,
    dict: Reached._mapping,
    (*ROWS, set, bytearray): Reached._items,
    types.FunctionType: Reached._function,
    types.CellType: Reached._cell,
    types.ModuleType: Reached._module,
    type: Reached._class,
    (tuple, frozenset, types.MethodType, staticmethod, classmethod, property, partial): Reached._parts,
}
if numpy is not None:
    _FOLLOW[numpy.ndarray] = Reached._array


def _names_of(code: types.CodeType) -> set[str]:
    inner: Iterator[set[str]] = (_names_of(one) for one in code.co_consts if is_a(one, types.CodeType))
    return set(code.co_names).union(*inner)


def _is_library(cls: type) -> bool:
    """Return whether a class is not followed: what libraries keep for themselves is not the program's."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return cls.__module__ != "__main__" and (type(file) is not str or is_librarys(file))


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

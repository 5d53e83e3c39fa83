"""Values that are equal and yet differ: type x pair x origin x use, against plain Python.

A guard by equality means `indistinguishable`: what no program can tell apart.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import math
import operator
import re
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import _core
from framelift.guards.equality import PARTS, indistinguishable

np = pytest.importorskip("numpy")

NAN = math.nan
NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
MOMENT = datetime.datetime(2020, 10, 25, 2, 30)
ZONE = datetime.timezone(datetime.timedelta(0), "x")
Pair = collections.namedtuple("Pair", "a b")


class Text(str):
    """A text."""


class Number(float):
    """A number."""


class Row(tuple):
    """A tuple."""


LEAVES: dict[str, tuple[Any, Any]] = {
    "int and bool": (1, True),
    "int and float": (1, 1.0),
    "zeros": (0.0, -0.0),
    "NaN sign": (NAN, NEGATIVE_NAN),
    "NaN payload": (NAN, OTHER_NAN),
    "complex zeros": (complex(0.0, 0.0), complex(-0.0, 0.0)),
    "complex imaginary zeros": (complex(0.0, 0.0), complex(0.0, -0.0)),
    "complex NaN": (complex(NAN, 0.0), complex(NEGATIVE_NAN, 0.0)),
    "tuple": ((1,), (True,)),
    "tuple of zeros": ((0.0,), (-0.0,)),
    "tuple of NaN": ((NAN,), (NEGATIVE_NAN,)),
    "slice": (slice(0, 1), slice(False, True)),
    "range": (range(0), range(1, 1)),
    "range step": (range(0, 3, 2), range(0, 4, 2)),
    "Size and tuple": (torch.Size([1]), (1,)),
    "frozenset order": (frozenset([1, 9]), frozenset([9, 1])),
    "frozenset elements": (frozenset([1]), frozenset([True])),
    "frozenset zeros": (frozenset([0.0]), frozenset([-0.0])),
    "frozenset in a tuple": ((frozenset([1, 9]),), (frozenset([9, 1]),)),
    "frozenset in a frozenset": (frozenset([(1, frozenset([1, 9]))]), frozenset([(1, frozenset([9, 1]))])),
    "text subclass": ("a", Text("a")),
    "bytes and text": (b"a", "a"),
}
OTHERS: dict[str, tuple[Any, Any]] = {
    "methodcaller": (operator.methodcaller("__add__", 1), operator.methodcaller("__add__", 1.0)),
    "methodcaller frozenset": (
        operator.methodcaller("g", frozenset([1, 9])),
        operator.methodcaller("g", frozenset([9, 1])),
    ),
    "methodcaller keyword": (operator.methodcaller("g", a=1), operator.methodcaller("g", a=True)),
    "itemgetter": (operator.itemgetter(0), operator.itemgetter(False)),
    "itemgetters": (operator.itemgetter(0, 1), operator.itemgetter(0, True)),
    "itemgetter slice": (operator.itemgetter(slice(0, 1)), operator.itemgetter(slice(False, 1))),
    "partial": (functools.partial(operator.add, 0.0), functools.partial(operator.add, -0.0)),
    "partial keyword": (functools.partial(dict, a=1), functools.partial(dict, a=True)),
    "partial frozenset": (
        functools.partial(operator.or_, frozenset([1, 9])),
        functools.partial(operator.or_, frozenset([9, 1])),
    ),
    "error": (ValueError(1), ValueError(1.0)),
    "Decimal": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "Decimal zeros": (decimal.Decimal("0"), decimal.Decimal("-0")),
    "Decimal NaN": (decimal.Decimal("nan1"), decimal.Decimal("nan2")),
    "fold": (MOMENT, MOMENT.replace(fold=1)),
    "time zone": (MOMENT.replace(tzinfo=datetime.timezone.utc), MOMENT.replace(tzinfo=ZONE)),
    "zone": (datetime.timezone.utc, ZONE),
    "float subclass": (Number(0.0), Number(-0.0)),
    "float subclass NaN": (Number(NAN), Number(NEGATIVE_NAN)),
    "tuple subclass": (Row((1,)), Row((True,))),
    "named tuple": (Pair(1, 2), Pair(1.0, 2)),
    "named tuple and tuple": (Pair(1, 2), (1, 2)),
    "named tuple of frozenset": (Pair(frozenset([1, 9]), 2), Pair(frozenset([9, 1]), 2)),
    "numpy and float": (np.float64(1.0), 1.0),
    "numpy zeros": (np.float64(0.0), np.float64(-0.0)),
    "numpy NaN": (np.float64(NAN), np.float64(NEGATIVE_NAN)),
    "numpy NaN payload": (np.float64(NAN), np.float64(OTHER_NAN)),
    "numpy float32 NaN": (np.float32(NAN), np.float32(NEGATIVE_NAN)),
    "numpy complex NaN": (np.complex128(NAN), np.complex128(NEGATIVE_NAN)),
    "numpy dtype": (np.dtype("f8"), np.dtype("f8", metadata={"a": 1})),
    "numpy unit": (np.timedelta64(60, "s"), np.timedelta64(1, "m")),
    "pattern": (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "match": (re.match("(a)", "ab"), re.match("(?P<x>a)", "ab")),
    "set": ({1, 9}, {9, 1}),
    "dict": ({1: 2}, {True: 2}),
    "dict of frozenset": ({frozenset([1, 9]): 1}, {frozenset([9, 1]): 1}),
    "deque": (collections.deque([1]), collections.deque([1], 5)),
}


@pytest.mark.parametrize("name", [*LEAVES, *OTHERS])
def test_the_native_meaning_and_that_of_python(name: str) -> None:
    a, b = {**LEAVES, **OTHERS}[name]
    for one, other in ((a, a), (a, b), (b, a)):
        same = indistinguishable(one, other)
        assert same is (one is other) or type(a) not in PARTS
        if name in LEAVES:
            assert _core.indistinguishable(one, other) == same


def _shown(value: Any) -> Any:
    """All that a program sees of a value."""
    kind = type(value)
    if isinstance(value, float):
        return kind.__name__, struct.pack("<d", value)
    if isinstance(value, complex):
        return kind.__name__, struct.pack("<dd", value.real, value.imag)
    if kind in (set, frozenset):
        return kind.__name__, [_shown(one) for one in value], [*(value | {2, 10, 17, 25})]
    if isinstance(value, (tuple, list, collections.deque)):
        return kind.__name__, [_shown(one) for one in value]
    if kind is dict:
        return [(_shown(key), _shown(held)) for key, held in value.items()]
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    return kind.__name__, repr(value)


class Asked:
    """Shows what a getter takes."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: (name, _shown(args), _shown(list(kwargs.items())))

    def __getitem__(self, key: Any) -> Any:
        return _shown(key)

    def __add__(self, other: Any) -> Any:
        return _shown(other)


def _text(x: torch.Tensor, value: Any) -> Any:
    return x + 1, str(value), type(value).__name__


def _parts(x: torch.Tensor, value: Any) -> Any:
    return x + 1, _shown(value)


def _calculate(x: torch.Tensor, value: Any) -> Any:
    if isinstance(value, (tuple, set, frozenset, dict, range)):
        return torch.cat([x * len(_shown(one)[0]) + i for i, one in enumerate(value)] or [x]), [*map(_shown, value)]
    if isinstance(value, float):
        return x * math.copysign(1.0, value)
    if isinstance(value, complex):
        return x * math.copysign(1.0, value.real) * math.copysign(2.0, value.imag)
    return x * (2 if callable(value) else 3)


def _call(x: torch.Tensor, value: Any) -> Any:
    if not callable(value):
        return x
    return x + 1, _shown(value({3}) if getattr(value, "func", None) is operator.or_ else value(Asked()))


USES = {"text": _text, "parts": _parts, "calculate": _calculate, "call": _call}


def _origins(use: Callable[..., Any]) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """Origin -> a function, and how it is called with a value there."""
    held: Any = None
    table: dict[str, Any] = {}
    place = Asked.__new__(Asked)

    def closure(x):
        return use(x, held)

    def set_closure(call, x, value):
        nonlocal held
        held = value
        return call(x)

    def attribute(x):
        return use(x, place.__dict__["value"])

    def set_attribute(call, x, value):
        place.__dict__["value"] = value
        return call(x)

    def entry(x):
        return use(x, table["value"])

    def set_entry(call, x, value):
        table["value"] = value
        return call(x)

    def default(x, value=None):
        return use(x, value)

    def by_default(x):
        return default(x)

    def set_default(call, x, value):
        default.__defaults__ = (value,)
        return call(x)

    names: dict[str, Any] = {"use": use}
    exec("def read(x): return use(x, value)", names)

    def set_global(call, x, value):
        names["value"] = value
        return call(x)

    return {
        "argument": (lambda x, value: use(x, value), lambda call, x, value: call(x, value)),
        "in a tuple": (lambda x, values: use(x, values[0][0]), lambda call, x, value: call(x, ((value, 1), 2))),
        "key": (lambda x, keys: [use(x, key) for key in keys], lambda call, x, value: call(x, {value: 1})),
        "closure": (closure, set_closure),
        "attribute": (attribute, set_attribute),
        "entry": (entry, set_entry),
        "default": (by_default, set_default),
        "global": (names["read"], set_global),
    }


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return _shown(call())
    except Exception as error:  # noqa: BLE001  compared below
        return type(error), str(error)


def _check(name: str, use: str, origin: str) -> None:
    a, b = {**LEAVES, **OTHERS}[name]
    if origin == "key" and (type(a).__hash__ is None or type(a) in (slice, functools.partial)):
        return
    function, call = _origins(USES[use])[origin]
    compiled = framelift.compile(function, backend="eager")
    x = torch.tensor([1.0, 2.0])
    for value in (a, b, a):
        expected = _outcome(lambda value=value: call(function, x, value))
        assert _outcome(lambda value=value: call(compiled, x, value)) == expected, value


@pytest.mark.parametrize("name", [*LEAVES, *OTHERS])
def test_equal_values_that_differ(name: str) -> None:
    """Each pair as an argument in every use, and at one more origin."""
    origins = [*_origins(_text)]
    for use in USES:
        _check(name, use, "argument")
    number = [*LEAVES, *OTHERS].index(name)
    _check(name, "parts", origins[1 + number % (len(origins) - 1)])


@pytest.mark.slow
@pytest.mark.parametrize("origin", [*_origins(_text)])
def test_equal_values_that_differ_everywhere(origin: str) -> None:
    for name in (*LEAVES, *OTHERS):
        for use in USES:
            _check(name, use, origin)


def test_frozen_sets_iterate_in_the_order_of_this_call() -> None:
    compiled = framelift.compile(lambda x, s: torch.cat([x * k for k in s]), backend="eager")
    for elements in ([1, 9], [9, 1], [1, 9]):
        assert compiled(torch.ones(1), frozenset(elements)).tolist() == [float(k) for k in frozenset(elements)]
    assert len(compiled.entries) == 2


def test_an_outside_cache_that_is_asked_by_both_zeros() -> None:
    def cached():
        return functools.lru_cache(None)(lambda value: math.copysign(1.0, value))

    for values in ([1.0, 2.0, 3.0, 0.0, -0.0, 0.0], [1.0, 2.0, -0.0, 0.0], [0.0, -0.0, 1.0]):
        ours, plain = cached(), cached()
        compiled = framelift.compile(lambda x, value, ours=ours: x * ours(value), backend="eager")
        assert [compiled(torch.ones(1), one).item() for one in values] == [plain(one) for one in values]


@pytest.mark.parametrize("number", [NEGATIVE_NAN, OTHER_NAN, complex(-0.0, 1.0), complex(0.0, -0.0), complex(1.0, NAN)])
def test_constants_that_a_text_does_not_tell_apart(number: Any) -> None:
    dtype = torch.complex128 if type(number) is complex else torch.float64
    compiled = framelift.compile(lambda x: torch.full((1,), number, dtype=dtype) + 0 * x, backend="eager")
    plain = torch.full((1,), number, dtype=dtype)
    full = framelift.compile(lambda x: (x, torch.full((1,), number, dtype=dtype))[1], backend="eager")(torch.ones(1))
    assert full.numpy().tobytes() == plain.numpy().tobytes()
    assert compiled(torch.ones(1)).shape == (1,)

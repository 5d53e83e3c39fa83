"""Captures with function transforms, and with objects of the standard library, kept on disk."""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch

import framelift
from framelift import config
from kept_support import counted

SCALE = 2
ARRAY = numpy.arange(3, dtype=numpy.float32)
KINDS = frozenset({list, collections.OrderedDict, len})


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


def inner(row: torch.Tensor) -> torch.Tensor:
    return row.sin() * SCALE


def total(row: torch.Tensor) -> torch.Tensor:
    return inner(row).sum()


TRANSFORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: torch.vmap(inner)(x),
    "grad": lambda x: torch.func.grad(total)(x),
    "vmap of grad": lambda x: torch.vmap(torch.func.grad(total))(x),
    "jvp": lambda x: torch.func.jvp(inner, (x,), (x,)),
    "vjp": lambda x: torch.func.vjp(inner, x)[1](x),
    "jacrev": lambda x: torch.func.jacrev(inner)(x),
    "hessian": lambda x: torch.func.hessian(total)(x),
    "nested": lambda x: torch.vmap(torch.vmap(lambda a, b: a * b * SCALE, (None, 0)), (0, None))(x[0], x[1]),
    "drawing": lambda x: torch.vmap(lambda row: row + torch.rand(3) * SCALE, randomness="different")(x),
}


class Pair(NamedTuple):
    first: Any
    second: Any


def lists(x: torch.Tensor) -> Any:
    found: list[Any] = []
    functools.reduce(lambda _, one: list.append(found, one), [x, x * SCALE], None)
    return found


def fields(x: torch.Tensor) -> Any:
    pair = Pair(x, SCALE)
    return pair.first * pair.second


def arrays(x: torch.Tensor) -> Any:
    return x * SCALE + torch.from_numpy(ARRAY)


def handled(x: torch.Tensor) -> Any:
    return x * SCALE if sys.exc_info()[1] is None else x


def called_back(x: torch.Tensor) -> Any:
    return list(map(torch.sin, [x, x * SCALE]))


def kinds(x: torch.Tensor) -> Any:
    return x * SCALE if type([]) in KINDS else x


class noted(property):
    """A property with something more."""

    note = 1


class Holder:
    @noted
    def value(self) -> int:
        return SCALE


HOLDER = Holder()


def properties(x: torch.Tensor) -> Any:
    return x * HOLDER.value


def distributed(x: torch.Tensor) -> Any:
    return torch.distributions.LogNormal(x, SCALE).log_prob(x.exp())


def detected(x: torch.Tensor) -> Any:
    return torch.nn.modules.transformer._detect_is_causal_mask(None, None, 3), x * SCALE


OBJECTS = {
    function.__name__: function
    for function in (lists, fields, arrays, handled, called_back, kinds, properties, distributed, detected)
}


@pytest.mark.parametrize("name", [*TRANSFORMS, *OBJECTS])
def test_a_capture_is_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = {**TRANSFORMS, **OBJECTS}[name]

    def compared() -> tuple[int, int]:
        x = torch.arange(9.0).reshape(3, 3).requires_grad_()
        torch.manual_seed(3)
        wanted = function(x)
        torch.manual_seed(3)
        result, captures, loaded = counted(function, x)
        assert repr(result) == repr(wanted)
        return captures, loaded

    assert compared() == (1, 0)
    assert compared() == (0, 1), framelift.stats()["not_kept"]
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert compared() == (1, 0)
    assert compared() == (0, 1)


def test_values_of_an_array_are_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    assert counted(arrays, x)[1:] == (1, 0)
    monkeypatch.setitem(globals(), "ARRAY", ARRAY + 1)
    result, captures, loaded = counted(arrays, x)
    assert (captures, loaded) == (0, 1) and result.equal(arrays(x))
    monkeypatch.setitem(globals(), "ARRAY", ARRAY.astype(numpy.float64))
    result, captures, loaded = counted(arrays, x)
    assert (captures, loaded) == (1, 0) and result.equal(arrays(x))


def test_another_set_of_classes_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    assert counted(kinds, x)[1:] == (1, 0)
    monkeypatch.setitem(globals(), "KINDS", frozenset({dict, collections.OrderedDict, len}))
    result, captures, loaded = counted(kinds, x)
    assert (captures, loaded) == (1, 0) and result.equal(kinds(x))


def test_a_call_inside_a_handler_is_another_one() -> None:
    x = torch.ones(3)
    assert counted(handled, x)[1:] == (1, 0)
    try:
        raise ValueError
    except ValueError:
        result, captures, loaded = counted(handled, x)
        assert captures and not loaded and result.equal(handled(x))
    assert counted(handled, x)[0].equal(handled(x))


def test_transforms_are_compiled_as_after_a_rehearsal() -> None:
    for loaded in (0, 1):
        framelift.reset()
        x = torch.arange(9.0).reshape(3, 3)
        before = framelift.stats()["loaded"]
        compiled = framelift.compile(TRANSFORMS["vmap of grad"], backend="aot_eager")
        assert compiled(x).equal(TRANSFORMS["vmap of grad"](x))
        assert framelift.stats()["loaded"] - before == loaded, framelift.stats()["not_kept"]


def made_arrays(x: torch.Tensor) -> Any:
    array = numpy.arange(3) * SCALE
    return x + torch.from_numpy(array), array.sum()


def test_arrays_that_a_program_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale, expected in ((2, (1, 0)), (2, (0, 1)), (3, (1, 0)), (3, (0, 1))):
        monkeypatch.setitem(globals(), "SCALE", scale)
        result, *found = counted(made_arrays, torch.ones(3))
        assert repr(result) == repr(made_arrays(torch.ones(3)))
        assert tuple(found) == expected, framelift.stats()["not_kept"]

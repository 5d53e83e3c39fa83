"""Attributes of numbers that are symbolic inside: captured code finds those of the plain number and no others."""

from __future__ import annotations

import collections.abc
from typing import Any

import numpy as np
import pytest
import torch

from support import World, check

KINDS = {
    "int": (2, 3, 5),
    "float": (2.5, 3.5, 7.5),
    "int64": tuple(map(np.int64, (2, 3, 5))),
    "float32": tuple(map(np.float32, (2.5, 3.5, 7.5))),
}
READS: dict[str, Any] = {
    "own names of framelift": lambda x, v: (
        x + 1,
        [
            hasattr(v, n)
            for n in ("value", "hint", "home", "node", "key", "name", "raw", "as_int", "constant", "has_hint")
        ],
    ),
    "default": lambda x, v: (x + 1, getattr(v, "name", "none"), getattr(v, "value", "none")),
    "doc": lambda x, v: (x + 1, v.__doc__, hasattr(v, "__module__")),
    "dir": lambda x, v: (x + 1, dir(v)),
    "protocols": lambda x, v: (
        x + 1,
        [hasattr(v, n) for n in ("__iter__", "__len__", "__getitem__", "__index__", "__call__")],
    ),
    "abstract classes": lambda x, v: (
        x + 1,
        isinstance(v, collections.abc.Iterable),
        isinstance(v, collections.abc.Sized),
    ),
    "size": lambda x, v: (x + 1, v.__sizeof__()),
    "real": lambda x, v: (x * v.real, v.imag),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", READS)
def test_attributes_are_those_of_the_plain_number(kind: str, read: str) -> None:
    def change(number: int, world: World) -> None:
        world.args[1] = KINDS[kind][number]

    check(READS[read], torch.ones(2), KINDS[kind][0], calls=3, mutate=change, graphs=None, breaks=None, captures=None)


def missing(x: torch.Tensor, v: Any) -> Any:
    try:
        return x, v.missing
    except AttributeError as error:
        return x + 1, str(error)


def iterated(x: torch.Tensor, v: Any) -> Any:
    found = []
    for use in (list, any, sum, sorted, iter, lambda n: [a for a in n], lambda n: 2 in n):
        try:
            use(v)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [missing, iterated])
def test_errors_are_those_of_the_plain_number(kind: str, program: Any) -> None:
    """A scalar of numpy's has `__getitem__`, and is no sequence for all that."""

    def change(number: int, world: World) -> None:
        world.args[1] = KINDS[kind][number]

    check(program, torch.ones(2), KINDS[kind][0], calls=3, mutate=change, graphs=None, breaks=None, captures=None)

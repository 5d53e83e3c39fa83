"""Copies of objects whose class answers reads itself: C code asks them for the same names, in the same order."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import framelift

asked: list[str] = []


class Logs:
    """Says what it is asked for."""

    def __init__(self) -> None:
        self.scale = 2

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return object.__getattribute__(self, name)


class Falls(Logs):
    def __getattr__(self, name: str) -> Any:
        asked.append("?" + name)
        raise AttributeError(name)


class Slotted(Falls):
    __slots__ = ("full", "unset")

    def __init__(self) -> None:
        super().__init__()
        self.full = 3


class FallsOnly:
    __slots__ = ("full", "unset")

    def __init__(self) -> None:
        self.full = 3

    def __getattr__(self, name: str) -> Any:
        asked.append("?" + name)
        raise AttributeError(name)


class States(Logs):
    def __getstate__(self) -> Any:
        return {"scale": 5}


class Reduces(Logs):
    def __reduce__(self) -> Any:
        return Logs, ()


class HasNoReduce(Reduces):
    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        if name == "__reduce__":
            raise AttributeError(name)
        return object.__getattribute__(self, name)


class GivesState(Logs):
    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return (lambda: {"scale": 7}) if name == "__getstate__" else object.__getattribute__(self, name)


class NewArguments(Logs):
    def __getnewargs__(self) -> Any:
        return ()


KINDS = (Logs, Falls, Slotted, FallsOnly, States, Reduces, HasNoReduce, GivesState, NewArguments)
WAYS = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "reduce_ex": lambda obj: obj.__reduce_ex__(4)[1:3],
    "reduce_ex of the class": lambda obj: object.__reduce_ex__(obj, 2)[1:],
    "getstate": lambda obj: object.__getstate__(obj),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_answers_reads_is_asked_as_in_eager(kind: type, way: str) -> None:
    obj, take = kind(), WAYS[way]

    def f(x):
        made = take(obj)
        state = getattr(made, "scale", getattr(made, "full", 0)) if type(made) in KINDS else repr(made)
        return x + 1, state

    x, c = torch.ones(2), framelift.compile(f, backend="eager", fullgraph=True)
    for _ in range(3):
        found = []
        for run in (f, c):
            asked.clear()
            found.append((run(x)[1], list(asked)))
        assert found[0] == found[1]
    assert len(c.entries) == 1

"""Arguments that do not fit a function, where C code calls it: no frame begins, so no probe sees the call."""

from __future__ import annotations

import collections
import functools
import re

import pytest
import torch

import framelift
from support import or_type_error

X = torch.ones(2)


class Special:
    def __add__(self):
        return 1

    def __len__(self, more):
        return 2

    def __call__(self, one, two):
        return one


def _one(a):
    return -a


def _world():
    def two(a, b):
        return a

    def named(a, *, k):
        return a

    class Own(Special):
        pass

    for name in ("__add__", "__len__", "__call__"):  # functions of this world alone
        found = vars(Special)[name]
        setattr(Own, name, type(found)(found.__code__, globals(), name, None, None))
    own = Own()

    def program(x):
        return x + 1, or_type_error(
            lambda: sorted([1, 2], key=two),
            lambda: list(map(two, [1, 2])),
            lambda: list(filter(named, [1])),
            lambda: functools.reduce(named, [1, 2]),
            lambda: max([1, 2], key=named),
            lambda: re.sub("a", two, "aa"),
            lambda: collections.defaultdict(two)[3],
            lambda: type(own + 1) is Own,
            lambda: len(own),
            lambda: list(map(own, [1])),
        )

    return program, two, named, Own


CHANGES = {
    "defaults": lambda two, named, own: setattr(two, "__defaults__", (3,)),
    "keyword defaults": lambda two, named, own: setattr(named, "__kwdefaults__", {"k": 3}),
    "code": lambda two, named, own: setattr(two, "__code__", _one.__code__),
    "code of an operator": lambda two, named, own: setattr(own.__add__, "__code__", (lambda a, b: a).__code__),
    "code of len": lambda two, named, own: setattr(own.__len__, "__code__", (lambda a: 5).__code__),
    "defaults of a call": lambda two, named, own: setattr(own.__call__, "__defaults__", (3,)),
    "name": lambda two, named, own: setattr(two, "__qualname__", "another"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parameters_of_a_function_that_c_code_could_not_call(change) -> None:
    program, *functions = _world()
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(X)[1] == program(X)[1]
    assert len(compiled.entries) == 1
    change(*functions)
    assert compiled(X)[1] == program(X)[1]


def test_what_cannot_be_iterated_is_named_as_in_plain_python() -> None:
    def own(*args):
        return args

    def program(x):
        return x + 1, or_type_error(lambda: own(*3), lambda: max(*None), lambda: own(1, *3), lambda: own(**4))

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for name in ("own", "another"):
        own.__qualname__ = name
        assert compiled(X)[1] == program(X)[1]

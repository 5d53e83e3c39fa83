"""Numbers that change, given to what keeps them.

The same object comes back, and none of their values is specialized on.
"""

import collections
import contextlib
import dataclasses
import itertools
import types

import numpy as np
import pytest
import torch

import framelift
from framelift.boundary.lazy.class_dict import ClassDict
from framelift.boundary.lazy.instance_dict import InstanceDict
from framelift.boundary.lazy.lazy_dict import LargeDict
from framelift.boundary.lazy.lazy_list import LazyList


class Plain:
    def __init__(self, n):
        self.n = n


class Named(str):
    def __new__(cls, n):
        made = str.__new__(cls, "name")
        made.n = n
        return made


@dataclasses.dataclass
class Row:
    n: object


class Trouble(Exception):
    pass


Pair = collections.namedtuple("Pair", "n m")

KEEPERS = {
    "class": lambda n: Plain(n).n,
    "dataclass": lambda n: Row(n).n,
    "named tuple": lambda n: Pair(n, 1).n,
    "text": lambda n: Named(n).n,
    "exception": lambda n: ValueError(n).args[0],
    "own exception": lambda n: Trouble("t", n).args[1],
    "stop": lambda n: StopIteration(n).value,
    "fromkeys": lambda n: dict.fromkeys("k", n)["k"],
    "ordered fromkeys": lambda n: collections.OrderedDict.fromkeys("k", n)["k"],
    "counter": lambda n: collections.Counter(k=n)["k"],
    "repeat": lambda n: next(itertools.repeat(n)),
    "repeat twice": lambda n: list(itertools.repeat(n, 2))[1],
    "cell": lambda n: types.CellType(n).cell_contents,
    "context": lambda n: contextlib.nullcontext(n).__enter__(),
}


@pytest.mark.parametrize("kind", [int, float, np.float32, np.int64])
@pytest.mark.parametrize("keeper", list(KEEPERS))
def test_what_keeps_a_number(keeper, kind):
    keep, graphs = KEEPERS[keeper], []

    def program(x, n):
        kept = keep(n)
        return x + 1, kept, kept is n

    compiled = framelift.compile(program, backend=lambda graph, _examples: graphs.append(graph) or graph)
    for value in range(1000, 1006):
        given = kind(value)
        _, kept, same = compiled(torch.ones(2), given)
        assert same and kept == given and type(kept) is kind
        assert kept is given or kind in (int, float)
    assert len(graphs) <= 2


def test_classes_that_look_at_numbers_get_plain_ones():
    class Own(int):
        pass

    def program(x, n):
        try:
            open(chr(0) + str(n))
        except ValueError as error:
            said = str(error)
        return x + Own(n), Own(n), OSError(n, "t").errno, type(OSError(2 + n * 0, "t")).__name__, said

    compiled = framelift.compile(program, backend="eager")
    for value in (5, 6, 7):
        expected, found = program(torch.ones(2), value), compiled(torch.ones(2), value)
        assert (
            torch.equal(expected[0], found[0])
            and expected[1:] == found[1:]
            and list(map(type, expected)) == list(map(type, found))
        )


def test_is_between_a_scalar_and_what_c_code_made_of_it():
    def program(x, n):
        kept = {"k": n}
        kept.update(k=n.astype(np.float32))
        return x + 1, kept["k"] is n

    compiled = framelift.compile(program, backend="eager")
    for value in (5, 6, 7):
        given = np.float32(value)
        assert compiled(torch.ones(2), given)[1] == program(torch.ones(2), given)[1]


@pytest.mark.parametrize("view", [LazyList, LargeDict, InstanceDict])
def test_views_have_the_flags_that_patterns_ask_for(view):
    patterns = 1 << 5 | 1 << 6
    assert view.__flags__ & patterns == view.builtin_type.__flags__ & patterns
    assert ClassDict.__flags__ & patterns == types.MappingProxyType.__flags__ & patterns


ROW = collections.deque([1, 2])


def test_a_deque_that_grows_matches_a_sequence():
    def program(x):
        ROW.append(len(ROW))
        match ROW:
            case [first, *rest]:
                return x + first, len(rest)
        return x, None

    compiled = framelift.compile(program, backend="eager")
    for _ in range(4):
        before = len(ROW)
        found = compiled(torch.ones(2))
        assert torch.equal(found[0], torch.full((2,), 2.0)) and found[1] == before and len(ROW) == before + 1

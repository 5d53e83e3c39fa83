"""Weak containers whose members die while captured code runs: their entries are gone when plain Python's are."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch

from support import check


class C:
    def __init__(self, other=None):
        self.other = other


def keys(x):
    a, b = C(), C()
    table = weakref.WeakKeyDictionary({a: 1, b: 2})
    before = len(table)
    del b
    return x + before, len(table), list(table.values()), a in table


def values(x):
    a, b = C(), C()
    table = weakref.WeakValueDictionary(a=a, b=b)
    before = sorted(table)
    b = None
    return x + 1, before, sorted(table), table.get("b"), table["a"] is a


def members(x):
    held = [C() for _ in range(3)]
    found = weakref.WeakSet(held)
    counts = []
    while held:
        counts.append(len(found))
        held.pop()
    return x + 1, counts, len(found)


def rebound_in_a_loop(x):
    table = weakref.WeakValueDictionary()
    counts = []
    for i in range(3):
        one = C()
        table[i] = one
        counts.append(sorted(table))
    return x + 1, counts


def copies(x):
    a, b = C(), C()
    table = weakref.WeakKeyDictionary()
    table[a], table[b] = b, a
    other = copy.copy(table)
    deep = copy.deepcopy(weakref.WeakValueDictionary(a=a))
    before = len(other)
    table.clear()
    other.pop(b)
    del b
    gc.collect()
    return x + 1, before, len(other), len(deep)


def held_by_another(x):
    table = weakref.WeakValueDictionary()
    outer = C(C())
    table["inner"] = outer.other
    first = len(table)
    outer.other = None
    return x + 1, first, len(table)


def _with_one(table):
    one = C()
    table["one"] = one
    return len(table)


def local_of_a_function(x):
    table = weakref.WeakValueDictionary()
    return x + 1, _with_one(table), len(table)


def while_it_is_gone_through(x):
    held = {i: C() for i in range(3)}
    table = weakref.WeakValueDictionary(held)
    seen = []
    for name in list(table):
        held.pop(2, None)
        seen.append((name, len(table)))
    return x + 1, seen, len(table)


def in_a_handler(x):
    found = weakref.WeakSet()
    try:
        one = C()
        found.add(one)
        raise ValueError(len(found))
    except ValueError as error:
        del one
        seen = error.args[0]
    return x + 1, seen, len(found)


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize(
    "program", [keys, values, members, rebound_in_a_loop, copies, held_by_another, while_it_is_gone_through]
)
def test_entries_go_when_the_program_lets_go(program):
    check(program, torch.ones(2), graphs=None, breaks=None)


def temporary(x):
    table = weakref.WeakKeyDictionary()
    table[C()] = 1
    return x + 1, len(table)


def _count(one, found):
    del one
    return len(found)


def handed_over(x):
    found = weakref.WeakSet()
    one = C()
    found.add(one)
    return x + 1, _count(one, found), len(found)


def made_for_a_call(x):
    found = weakref.WeakSet()

    def noted(one):
        found.add(one)
        return len(found)

    return x + 1, noted(C()), len(found)


def cycle(x):
    found = weakref.WeakSet()
    one = C()
    one.other = one
    found.add(one)
    before = len(found)
    del one
    gc.collect()
    return x + 1, before, len(found)


def pop_from_a_list(x):
    found = weakref.WeakSet()
    held = [C()]
    found.add(held[0])
    last = held.pop()
    alive = len(found)
    last = last.other
    return x + 1, alive, len(found)


def generator(x):
    found = weakref.WeakSet()

    def made():
        for _ in range(2):
            one = C()
            found.add(one)
            yield len(found)
            del one

    return x + 1, list(made()), len(found)


@pytest.mark.parametrize(
    "program",
    [temporary, handed_over, made_for_a_call, cycle, pop_from_a_list, generator, local_of_a_function, in_a_handler],
)
def test_where_a_rehearsal_may_hold_it_longer(program):
    check(program, torch.ones(2), graphs=None, breaks=None)

"""Objects that C code looks into behind our back: mappings, getters, copies, identities, caches, odd callables."""

from __future__ import annotations

import collections
import collections.abc
import copy
import dataclasses
import functools
import operator
from typing import Any

import pytest
import torch

import framelift
from support import World, check

X = torch.ones(3)


class Table(collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.d = {"a": 1, "b": 2}

    def __getitem__(self, key: str) -> int:
        return self.d[key]

    def __iter__(self) -> Any:
        return iter(self.d)

    def __len__(self) -> int:
        return len(self.d)

    def scaled(self, k: int, z: int = 1) -> int:
        return k * z * self.d["a"]


def more(_: int, world: World) -> None:
    world.args[1].d["a"] += 1


def spread(x: Any, table: Table) -> Any:
    made, updated = dict(table), {}
    updated.update(table)
    return x + made["a"] + updated["b"], made, updated, collections.OrderedDict(table), {**table}, dict(**table)


def getters(x: Any, table: Table) -> Any:
    y = x + operator.attrgetter("d")(table)["a"] + operator.methodcaller("scaled", 3, z=2)(table)
    return y, operator.itemgetter("a", "b")(table), [*map(operator.attrgetter("d"), [table])][0] is table.d


def copies(x: Any, table: Table) -> Any:
    shallow, deep = copy.copy(table), copy.deepcopy(table)
    deep.d["a"] = 7
    return x + shallow.d["a"] + deep.d["a"], shallow, deep, shallow.d is table.d


@pytest.mark.parametrize("program", [spread, getters, copies])
def test_what_c_code_reads_of_a_handle_is_guarded(program: Any) -> None:
    check(program, X, Table())
    check(program, X, Table(), mutate=more, graphs=2)


class Slotted:
    __slots__ = ("p", "q")


def slots(x: Any, thing: Slotted) -> Any:
    made = copy.copy(thing)
    return x + made.p, made, hasattr(made, "q"), "p" in dir(thing)


def test_copies_of_slots() -> None:
    thing = Slotted()
    thing.p = 1
    check(slots, X, thing)


@dataclasses.dataclass
class Pair:
    left: Any
    right: list[int]


def pairs(x: Any, pair: Pair) -> Any:
    made = dataclasses.replace(pair, right=[1])
    return x + 1, dataclasses.asdict(pair), made, dataclasses.astuple(made)


def test_dataclass_helpers() -> None:
    check(pairs, X, Pair(3, [1, 2]))


# ---- identity -------------------------------------------------------------------------------------------------------

def identities(x: Any, pair: Pair) -> Any:
    return x + (id(x) == id(pair.left)), id(pair), {id(pair): 1}[id(pair)], hash(type(pair)) == hash(Pair), hash(x), id(pair.right)


def test_identities_of_external_objects_are_the_real_ones() -> None:
    pair = Pair(X, [])
    framelift.reset()
    captured = framelift.compile(identities, backend="eager", fullgraph=True)
    for given in (pair, Pair(X, [1])):
        want, got = identities(X, given), captured(X, given)
        assert torch.equal(want[0], got[0]) and want[1:] == got[1:]


def shows_an_address(x: Any) -> Any:
    made = object()
    return x + 1, made, id(made)


def test_an_address_inside_does_not_leave() -> None:
    framelift.reset()
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(shows_an_address, backend="eager", fullgraph=True)(X)


# ---- caches and odd callables ---------------------------------------------------------------------------------------

def own_cache(x: Any) -> Any:
    calls = []

    @functools.lru_cache(maxsize=2)
    def double(k: int) -> int:
        calls.append(k)
        return 2 * k
    total = sum(double(k) for k in (1, 2, 1, 3))
    return x + total, calls, tuple(double.cache_info())


def test_a_cache_made_inside_caches() -> None:
    check(own_cache, X)


class Odd:
    pass


Odd.__call__ = functools.partial(operator.add, 3)  # type: ignore[method-assign]


class Deep:
    pass


Deep.__call__ = Deep()  # type: ignore[method-assign]


def odd(x: Any) -> Any:
    try:
        Deep()()
    except RecursionError:
        deep = True
    return x + Odd()(4), deep


def test_what_a_class_holds_as_its_call() -> None:
    check(odd, X)


class Loud(functools.partial):  # type: ignore[type-arg]
    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args) + 1


def partials(x: Any) -> Any:
    return x + Loud(operator.add, 1)(2)


def test_a_subclass_of_partial_keeps_its_call() -> None:
    check(partials, X)


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        return type.__getattribute__(cls, name) if name != "a" else 5


class Made(metaclass=Meta):
    a = 1
    b = 2


def through_metaclass(x: Any) -> Any:
    return x + Made.a + Made.b


def test_the_attributes_of_a_metaclass() -> None:
    check(through_metaclass, X)

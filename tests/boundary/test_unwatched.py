"""What C code sees of external objects without a call of the program: each look must be watched, guarded or refused.

The programs run on the very objects of the plain run, since what is compared depends on where objects lie in memory.
"""

from __future__ import annotations

import abc
import array
import collections
import collections.abc
import functools
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import framelift
from fresh_worlds import in_fresh_worlds


class Thing:
    def __init__(self, n: int) -> None:
        self.n = n

    def method(self) -> int:
        return self.n


def same_objects(program: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> None:
    """Each call plainly, then captured; a program that breaks is right as well."""
    framelift.reset()
    captured = framelift.compile(program, backend="eager")
    for arguments in calls:
        assert torch.equal(program(*arguments), captured(*arguments))


# ---- walks over sets, which follow from addresses -------------------------------------------------------------------


def _things() -> list[tuple[Any, ...]]:
    """Calls with three objects whose addresses stand in different orders."""
    things = sorted((Thing(n) for n in range(1, 7)), key=id)
    return [(torch.ones(2), *(things[i] for i in places)) for places in ((0, 2, 4), (4, 2, 0), (1, 5, 0), (5, 3, 1))]


def unpacked(x: Any, *things: Any) -> Any:
    a, b, c = {*things}
    return x + a.n * 100 + b.n * 10 + c.n


def unpacked_with_rest(x: Any, *things: Any) -> Any:
    first, *_ = set(things)
    return x + first.n


def spread_in_call(x: Any, *things: Any) -> Any:
    return x + (lambda a, b, c: a.n * 100 + b.n * 10 + c.n)(*set(things))


def added_to_list(x: Any, *things: Any) -> Any:
    found: list[Any] = []
    found += set(things)
    return x + found[0].n


def assigned_to_slice(x: Any, *things: Any) -> Any:
    found: list[Any] = []
    found[:] = frozenset(things)
    return x + found[0].n


def delegated_to(x: Any, *things: Any) -> Any:
    def walk() -> Any:
        yield from set(things)

    return x + next(walk()).n


def inside_another(x: Any, *things: Any) -> Any:
    return x + next(itertools.chain.from_iterable([set(things)])).n


def walked_by_a_callback(x: Any, *things: Any) -> Any:
    return x + list(map(list, [set(things)]))[0][0].n


def of_tuples(x: Any, *things: Any) -> Any:
    return x + next(iter({(thing, 1) for thing in things}))[0].n


def of_frozen_sets(x: Any, *things: Any) -> Any:
    return x + next(iter(next(iter({frozenset((thing,)) for thing in things})))).n


def of_methods(x: Any, *things: Any) -> Any:
    return x + next(iter({thing.method for thing in things}))()


def of_references(x: Any, *things: Any) -> Any:
    return x + next(iter({weakref.ref(thing) for thing in things}))().n


class Own(set):  # type: ignore[type-arg]
    pass


def of_a_subclass(x: Any, *things: Any) -> Any:
    return x + next(iter(Own(things))).n


def hash_of_method(x: Any, *things: Any) -> Any:
    return x + hash(things[0].method) % 97


def hash_of_tuple(x: Any, *things: Any) -> Any:
    return x + functools.partial(hash, (1, (things[0],)))() % 97


@pytest.mark.parametrize(
    "program",
    [
        unpacked,
        unpacked_with_rest,
        spread_in_call,
        added_to_list,
        assigned_to_slice,
        delegated_to,
        inside_another,
        walked_by_a_callback,
        of_tuples,
        of_frozen_sets,
        of_methods,
        of_references,
        of_a_subclass,
        hash_of_method,
        hash_of_tuple,
    ],
    ids=lambda f: f.__name__,
)
def test_order_follows_addresses(program: Any) -> None:
    same_objects(program, _things())


def percent(x: Any, *things: Any) -> Any:
    text = "%s" % things[0]
    return x + int(text[-5:-1], 16)


def percent_in_place(x: Any, *things: Any) -> Any:
    text = "%r"
    text %= [things[0]]
    return x + int(text[-6:-2], 16)


def percent_of_bytes(x: Any, *things: Any) -> Any:
    return x + int((b"%a" % things[0])[-5:-1], 16)


@pytest.mark.parametrize("program", [percent, percent_in_place, percent_of_bytes], ids=lambda f: f.__name__)
def test_texts_that_show_addresses(program: Any) -> None:
    same_objects(program, _things())


def test_walks_are_native_again() -> None:
    before = {*range(5)}.__iter__
    same_objects(unpacked, _things())
    assert type(iter({1})) is type(before())


# ---- operations whose result nobody needs ---------------------------------------------------------------------------


def test_unused_operations_still_raise() -> None:
    def program(x: Any, i: Any) -> int:
        torch.index_select(x, 0, i)
        return len(x)

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    assert captured(torch.ones(3), torch.tensor([1])) == 3
    with pytest.raises(IndexError):
        captured(torch.ones(3), torch.tensor([7]))


# ---- what C code asks classes for -----------------------------------------------------------------------------------


def registered_class() -> Any:
    class Abstract(abc.ABC):
        pass

    class Middle(abc.ABC):
        pass

    class Concrete:
        pass

    one = Concrete()
    return lambda x: x + isinstance(one, Abstract) + issubclass(Concrete, Abstract), [
        lambda: Abstract.register(Middle),
        lambda: Middle.register(Concrete),
    ]


def registered_sequence() -> Any:
    class Pair:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> int:
            if i > 1:
                raise IndexError(i)
            return i

    pair = Pair()

    def program(x: Any) -> Any:
        match pair:
            case [_, second]:
                return x + second
            case _:
                return x

    return program, [lambda: collections.abc.Sequence.register(Pair)]


def mapping_with_its_own_get() -> Any:
    class Table(collections.abc.Mapping):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> int:
            return {"a": 1}[key]

        def __iter__(self) -> Any:
            return iter("a")

        def __len__(self) -> int:
            return 1

    table = Table()

    def program(x: Any) -> Any:
        match table:
            case {"a": found}:
                return x + found
            case _:
                return x

    return program, [lambda: setattr(table, "get", lambda key, default=None: 7)]


def pattern_over_an_unknown_type() -> Any:
    numbers = array.array("d", [1.0, 2.0])

    def program(x: Any) -> Any:
        match numbers:
            case [first, *_]:
                return x + first
            case _:
                return x

    return program, [lambda: numbers.insert(0, 5.0)]


def recursion_limit() -> Any:
    before = sys.getrecursionlimit()
    return lambda x: x + sys.getrecursionlimit(), [
        lambda: sys.setrecursionlimit(before + 1),
        lambda: sys.setrecursionlimit(before),
    ]


def raised_class() -> Any:
    class Trouble(Exception):
        pass

    def program(x: Any) -> Any:
        try:
            raise Trouble
        except Trouble as error:
            return x + len(error.args)

    return program, [lambda: setattr(Trouble, "__init__", lambda self: Exception.__init__(self, 1, 2))]


def instances_made_by_c() -> Any:
    class Base:
        pass

    class Item(Base):
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

    def program(x: Any) -> Any:
        made = [
            *map(Item, [1]),
            *itertools.starmap(Item, [(1, 2)]),
            functools.reduce(Item, [1, 2]),
            collections.defaultdict(Item)[1],
        ]
        return x + sum(1 if item else 2 for item in made)

    return program, [lambda: setattr(Base, "__bool__", lambda self: False)]


def metaclass_that_grows() -> Any:
    class Meta(type):
        pass

    class Kind(metaclass=Meta):
        pass

    one = object()
    return lambda x: x + isinstance(one, Kind) + (10 if Kind else 20), [
        lambda: setattr(Meta, "__instancecheck__", lambda cls, value: True),
        lambda: setattr(Meta, "__bool__", lambda cls: False),
    ]


@pytest.mark.parametrize(
    "make",
    [
        raised_class,
        instances_made_by_c,
        metaclass_that_grows,
        registered_class,
        registered_sequence,
        mapping_with_its_own_get,
        pattern_over_an_unknown_type,
        recursion_limit,
    ],
    ids=lambda f: f.__name__,
)
def test_classes_answer_as_they_do_now(make: Any) -> None:
    in_fresh_worlds(make)


def _special(method: Callable[[Any, list[int]], Any], use: Callable[[Any], int]) -> Any:
    """A class whose special method is no function of its own but leads to an object outside."""
    numbers = [1, 2]

    class Holder:
        pass

    holder = Holder()
    holder.n = 3  # type: ignore[attr-defined]
    name, value = method(holder, numbers)
    setattr(Holder, name, value)
    return lambda x: x + use(holder), [lambda: numbers.append(7), lambda: setattr(holder, "n", 9)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: _special(lambda h, l: ("__len__", l.__len__), len),
        lambda: _special(lambda h, l: ("__len__", functools.partial(getattr, h, "n")), len),
        lambda: _special(lambda h, l: ("__getitem__", object.__getattribute__), lambda h: h["n"]),
        lambda: _special(
            lambda h, l: ("__bool__", types.MethodType(lambda of: len(of) > 2, l)), lambda h: 1 if h else 2
        ),
    ],
    ids=["bound", "partial", "object", "method"],
)
def test_special_methods_that_are_no_functions(make: Any) -> None:
    in_fresh_worlds(make)


def factory_that_reads() -> Any:
    thing = Thing(1)
    table: Any = collections.defaultdict(functools.partial(getattr, thing, "n"))

    def program(x: Any) -> Any:
        found = table[1]
        del table[1]
        return x + found

    return program, [lambda: setattr(thing, "n", 5)]


def test_factories_of_missing_keys() -> None:
    in_fresh_worlds(factory_that_reads)


# ---- functions declared to be one node -------------------------------------------------------------------------------


class _Options:
    scale = 2.0
    calls = 0


OPTIONS, SHIFTS, CALLS = _Options(), [1.0], [0]


def _one_node(x, by=3.0):
    CALLS[0] += 1
    OPTIONS.calls += 1
    return x * OPTIONS.scale * by + SHIFTS[0]


FACTOR = 2.0


def _by_factor(x):
    return x * FACTOR


@pytest.mark.parametrize("wrapped", [functools.reduce, collections.namedtuple, torch.nn.functional.relu])
def test_a_wrapper_with_the_name_of_a_librarys_module_is_the_programs(wrapped):
    """functools.wraps copies `__module__`: it does not say whose code a function is."""
    global FACTOR
    framelift.reset()
    helper = functools.wraps(wrapped)(types.FunctionType(_by_factor.__code__, globals(), "helper"))
    inside = framelift.nonstrict_trace(lambda x: helper(x))
    fast, x = framelift.compile(lambda x: inside(x) + 1, backend="aot_eager", fullgraph=True), torch.ones(2)
    try:
        for FACTOR in (2.0, 2.0, 3.0):
            assert torch.equal(fast(x), x * FACTOR + 1)
        assert framelift.stats()["captures"] == 2
    finally:
        FACTOR = 2.0


@pytest.mark.parametrize("mark", [framelift.allow_in_graph, framelift.nonstrict_trace])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_function_of_one_node_reads_is_guarded(mark, backend):
    framelift.reset()
    inside = mark(types.FunctionType(_one_node.__code__, globals(), "inside", (3.0,)))

    def f(x):
        return inside(x) + 1

    fast, x = framelift.compile(f, backend=backend, fullgraph=True), torch.ones(2)
    try:
        for change in (
            lambda: None,
            lambda: None,
            lambda: setattr(OPTIONS, "scale", 5.0),
            lambda: SHIFTS.__setitem__(0, 4.0),
        ):
            change()
            got = fast(x)
            assert torch.equal(got, x * OPTIONS.scale * 3.0 + SHIFTS[0] + 1)
        assert framelift.stats()["captures"] == 3
    finally:
        vars(OPTIONS).pop("scale", None)
        SHIFTS[0] = 1.0


def test_what_a_function_of_one_node_counts_is_counted_once():
    inside = framelift.allow_in_graph(types.FunctionType(_one_node.__code__, globals(), "counting", (3.0,)))
    fast = framelift.compile(lambda x: inside(x), backend="eager", fullgraph=True)
    before = CALLS[0], OPTIONS.calls
    for i in range(1, 4):
        fast(torch.ones(2))
        assert (CALLS[0], OPTIONS.calls) == (before[0] + i, before[1] + i)


def test_what_captured_code_changes_before_a_function_of_one_node_reads_it():
    inside = framelift.allow_in_graph(types.FunctionType(_one_node.__code__, globals(), "reading", (3.0,)))

    def f(x, value):
        OPTIONS.scale = value
        return inside(x)

    fast = framelift.compile(f, backend="aot_eager")
    try:
        for value in (1.0, 2.0, 2.0):
            assert torch.equal(fast(torch.ones(2), value), torch.ones(2) * value * 3.0 + SHIFTS[0])
    finally:
        vars(OPTIONS).pop("scale", None)


def _changing_a_cell():
    k = 1.0

    def inside(x):
        return x * k

    def f(x, value):
        nonlocal k
        k = value
        return inside(x)

    framelift.allow_in_graph(inside)
    return f


def _changing_a_global(x, value):
    global FACTOR
    FACTOR = value
    return _by_factor(x)


FACTOR = 1.0


@framelift.allow_in_graph
def _by_factor(x):
    return x * FACTOR


@pytest.mark.parametrize("made", [_changing_a_cell, lambda: _changing_a_global])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_variables_that_captured_code_sets_for_a_function_of_one_node(made, backend):
    fast = framelift.compile(made(), backend=backend)
    for value in (2.0, 3.0, 3.0):
        assert fast(torch.ones(2), value).tolist() == [value, value]

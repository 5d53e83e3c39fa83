"""Objects that C code looks into behind our back: mappings, getters, copies, identities, caches, odd callables."""

from __future__ import annotations

import collections
import collections.abc
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import pickle
import sys
import typing
from typing import Any, TypedDict

import pytest
import torch
from support import World, check

import framelift

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
    return x + made.p, made, hasattr(made, "q"), hasattr(thing, "p")


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
    return (
        x + (id(x) == id(pair.left)),
        id(pair),
        {id(pair): 1}[id(pair)],
        hash(type(pair)) == hash(Pair),
        hash(x),
        id(pair.right),
    )


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


Odd.__call__ = operator.itemgetter(1)  # type: ignore[method-assign]


class Deep:
    pass


Deep.__call__ = Deep()  # type: ignore[method-assign]


def odd(x: Any) -> Any:
    try:
        Deep()()
    except RecursionError:
        deep = True
    return x + Odd()((3, 4)), deep


def test_what_a_class_holds_as_its_call() -> None:
    check(odd, X)


class Holder:
    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table


FACTOR = 2


def test_a_namespace_is_given_to_a_class() -> None:
    """Only the class's own code looks at it: what is not read is not guarded."""

    def f(x: Any) -> Any:
        return x * Holder(vars(sys.modules[__name__])).table["FACTOR"]

    for name, graphs in (("FACTOR", 2), ("X", 1)):
        change = functools.partial(globals().__setitem__, name)
        check(f, torch.ones(2), mutate=lambda i, _, change=change: change(i), graphs=graphs, state=[(globals(), name)])


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


# ---- results --------------------------------------------------------------------------------------------------------


def captured_result(program: Any, *args: Any) -> Any:
    framelift.reset()
    return framelift.compile(program, backend="eager", fullgraph=True)(*args)


def counters_out(x: Any) -> Any:
    fixed, sized = itertools.count(3, 2), itertools.count(x.shape[0])
    next(fixed), next(sized)
    return x + 1, fixed, sized


def iterators_out(x: Any) -> Any:
    count, walked = itertools.count(3), iter([1, 2, 3])
    next(count), next(walked)
    return (
        count,
        itertools.compress([x, x + 1, x + 2], [1, 0, 1]),
        itertools.chain(walked, [5]),
        itertools.islice(itertools.cycle([1, 2]), 3),
        itertools.product([1], [2, 3]),
        itertools.zip_longest([1], [2, 3], fillvalue=0),
    )


def test_iterators_of_itertools_leave() -> None:
    """Since CPython 3.14 they do not say what makes them again: they are graph breaks there."""
    says = sys.version_info < (3, 14)
    plain = iterators_out(X)
    captured = framelift.compile(iterators_out, backend="eager", fullgraph=says)(X)
    counters = framelift.compile(counters_out, backend="eager")
    for size in (3, 7, 9):  # symbolic from the second on
        assert repr(counters(torch.ones(size))[1:]) == repr(counters_out(torch.ones(size))[1:])
    assert [next(plain[0]), next(plain[0])] == [next(captured[0]), next(captured[0])]
    for one, other in zip(plain[1:], captured[1:], strict=True):
        assert str(list(one)) == str(list(other))


def iterators_in(x: Any, it: Any) -> Any:
    return x + next(it), [*itertools.islice(it, 1)]


def exhausting(x: Any, it: Any) -> Any:
    return x + sum(it)


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([1, 2, 3, 4, 5]),
        lambda: iter((1, 2, 3, 4, 5)),
        lambda: iter(range(1, 6)),
        lambda: reversed([1, 2, 3, 4]),
    ],
)
@pytest.mark.parametrize("program", [iterators_in, exhausting])
def test_iterators_that_come_in_go_on_outside(make: Any, program: Any) -> None:
    framelift.reset()
    captured = framelift.compile(program, backend="eager", fullgraph=True)
    plain, watched = make(), make()
    for _ in range(2):
        assert str(program(X, plain)) == str(captured(X, watched)) if plain.__length_hint__() > 1 else True
    assert list(plain) == list(watched)


def exhausted_ones(x: Any, one: Any, other: Any) -> Any:
    return x + next(one, 1), list(other)


def test_exhausted_iterators_are_told_from_those_of_empty_lists() -> None:
    """An exhausted one shows an empty list that is made when it is asked.

    Two such lists may even lie at one address.
    """

    def ended() -> Any:
        it = iter([1])
        return list(it) and it

    captured = framelift.compile(exhausted_ones, backend="eager", fullgraph=True)
    for make in (
        lambda: (ended(), ended()),
        lambda: (iter(grown), ended()),
        lambda: (ended(), iter(grown)),
        lambda: (iter(grown), iter(grown)),
    ):
        grown: list[int] = []
        plain, watched = make(), make()
        assert str(exhausted_ones(X, *plain)) == str(captured(X, *watched))
        grown += [5, 6]
        assert [list(it) for it in plain] == [list(it) for it in watched]


# ---- texts, spreads, deletes -----------------------------------------------------------------------------------------


class Plain:
    pass


class Named:
    def __repr__(self) -> str:
        return "Named!"


def formatted(x: Any, thing: Any) -> Any:
    return x + 1, f"{thing!r:>20} {x.shape} {1:03}"


def test_f_strings() -> None:
    check(formatted, X, Named())
    for program in (formatted, lambda x, _: formatted(x, Plain())):
        with pytest.raises(framelift.exc.Unsupported, match="address"):
            captured_result(program, X, Plain())


class Keyed:
    def __init__(self) -> None:
        self.names = ["a"]

    def keys(self) -> Any:
        return self.names

    def __getitem__(self, name: str) -> int:
        return len(self.names)


def merged(x: Any, keyed: Keyed) -> Any:
    return x + 1, {**keyed}, dict(b=1, **keyed)


def longer(_: int, world: World) -> None:
    world.args[1].names.append("c")


def hides_its_keys(_: int, world: World) -> None:
    world.args[1].keys = lambda: ["z"]


@pytest.mark.parametrize("change", [longer, hides_its_keys])
def test_spreading_a_handle_is_watched(change: Any) -> None:
    check(merged, X, Keyed())
    check(merged, X, Keyed(), mutate=change, graphs=2)


class Slot:
    __slots__ = ("p",)


def deleting(x: Any, thing: Slot) -> Any:
    del thing.p
    return x + 1, hasattr(thing, "p")


def test_slots_are_deleted() -> None:
    thing = Slot()
    thing.p = 1
    check(deleting, X, thing, calls=1)


class Typed(TypedDict):
    a: Any


def typed(x: Any) -> Any:
    return Typed(a=x + 1)


def test_typed_dictionaries() -> None:
    check(typed, X)


# ---- sets of objects ------------------------------------------------------------------------------------------------


class Held:
    def __init__(self, k: int) -> None:
        self.k = k


def first_of(x: Any, one: Held, other: Held) -> Any:
    both = {one, other}
    return x + [held.k for held in both][0], one in both, len(both)


def test_a_set_of_handles_is_walked_in_the_order_of_the_real_ones() -> None:
    framelift.reset()
    captured = framelift.compile(first_of, backend="eager", fullgraph=True, recompile_limit=64)
    held = [Held(k) for k in range(5)]
    for one, other in list(itertools.permutations(held, 2))[:10]:
        assert torch.equal(captured(X, one, other)[0], first_of(X, one, other)[0])


def of_tensors(x: Any, y: Any) -> Any:
    both = {x, y}
    return x + len(both), x in both, y in set([x])


def walked_tensors(x: Any, y: Any) -> Any:
    return [t + 1 for t in {x, y}]


def test_sets_of_tensors() -> None:
    check(of_tensors, X, torch.zeros(3))
    check(lambda x: ({x}.pop() * 2, sum(t.sum() for t in {x + 1, x + 2})), X)
    with pytest.raises(framelift.exc.Unsupported, match="set of tensors"):
        captured_result(walked_tensors, X, torch.zeros(3))


def renamed_generators(x: Any) -> Any:
    def numbers() -> Any:
        yield 1

    numbers.__name__, numbers.__qualname__ = "other", "the.other"
    made = numbers()
    return x + next(made), made.__name__, made.__qualname__


def test_generators_have_the_names_of_their_functions() -> None:
    check(renamed_generators, X)


def test_numbers_share_no_memory() -> None:
    assert framelift._core.memory_pattern((X, 5, 5, X), None, False) == (0, 1, 2, 0)


def test_reversed_iterators_from_outside_go_on_where_they_stand() -> None:
    def f(x, walk):
        return x + next(walk)

    walk, compiled = reversed([1, 2, 3]), framelift.compile(f, backend="eager")
    assert [compiled(torch.zeros(()), walk).item() for _ in range(3)] == [3.0, 2.0, 1.0]
    with pytest.raises(StopIteration):
        compiled(torch.zeros(()), walk)


class _Mode(enum.Enum):
    ONE = "one"
    TWO = "two"


class _TextMode(str, enum.Enum):
    ONE = "one"
    TWO = "two"


_BY_MODE = {_Mode.ONE: 1, _Mode.TWO: 2}
_BY_TEXT = {_TextMode.ONE: 10, _TextMode.TWO: 20}


def test_tables_keyed_by_members_of_enumerations() -> None:
    def f(x, mode, text):
        return x * _BY_MODE[mode] + _BY_TEXT[text] + _BY_TEXT["one"] + len({mode: 1, _Mode.ONE: 2})

    check(f, torch.ones(2), _Mode.TWO, _TextMode.ONE)

    compiled, x = framelift.compile(f, backend="eager", fullgraph=True), torch.ones(2)
    try:
        for number in (2, 3, 4):
            _BY_MODE[_Mode.TWO] = number
            assert torch.equal(compiled(x, _Mode.TWO, _TextMode.TWO), f(x, _Mode.TWO, _TextMode.TWO))
    finally:
        _BY_MODE[_Mode.TWO] = 2


def test_generic_classes() -> None:
    """Since CPython 3.12 their base typing.Generic is written in C."""
    item = typing.TypeVar("item")

    class Box(typing.Generic[item]):
        def __init__(self, held: item) -> None:
            self.held = held

        def __get__(self, owner: object, kind: object = None) -> item:
            return self.held

    class Table(dict, typing.Generic[item]):
        pass

    class Owner:
        box = Box(3)

    outside, table = Box(5), Table(a=7)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, Box]:
        made = Box(x)
        return x * outside.held + Owner.box + table["a"], made

    check(f, torch.ones(2))


def test_an_empty_slot_is_filled_later() -> None:
    class Slots:
        __slots__ = ("a", "b")

    def read(x, o):
        try:
            return x - o.b
        except AttributeError as error:
            return x + 1, str(error)

    def delete(x, o):
        try:
            del o.b
        except AttributeError:
            return x - 1
        return x + 1

    def fill(i, world):
        world.args[1].b = i

    for f in (read, delete, lambda x, o: x - getattr(o, "b", 7), lambda x, o: x + hasattr(o, "b")):
        check(f, torch.ones(2), Slots(), mutate=fill, calls=3, graphs=None)


class Replaced:
    kind = "old"


def test_pickling_of_a_class_that_captured_code_put_into_its_module() -> None:
    """The pickler and its opposite find classes by name, and would find the one before."""

    def program(x: Any) -> Any:
        global Replaced
        before = Replaced

        class Replaced:  # type: ignore[no-redef]
            kind = "new"

        Replaced.__qualname__ = "Replaced"
        made = pickle.loads(pickle.dumps(Replaced()))
        kind, same = made.kind, type(made) is Replaced
        Replaced = before  # type: ignore[misc]
        return x + 1, kind, same

    framelift.reset()
    assert framelift.compile(program, backend="eager")(torch.ones(1))[1:] == program(torch.ones(1))[1:] == ("new", True)


class TwoPlaces:
    __slots__ = ("held", "empty")

    def method(self) -> int:
        return 1


def test_what_is_said_of_missing_attributes() -> None:
    def said(change: Any) -> Any:
        try:
            return change()
        except AttributeError as error:
            return str(error), error.name, error.obj is not None

    def program(thing: Any, x: Any) -> Any:
        thing.held = 1
        del thing.held
        changes = (
            lambda: thing.held,
            lambda: thing.empty,
            lambda: thing.nothing,
            lambda: setattr(thing, "nothing", 1),
            lambda: setattr(thing, "method", 1),
            lambda: delattr(thing, "held"),
            lambda: TwoPlaces().empty,
        )
        return x + 1, [said(change) for change in changes]

    check(program, TwoPlaces(), torch.ones(1))

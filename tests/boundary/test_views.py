"""Dictionaries that are imported entry by entry answer as plain ones do, whoever asks.

Opcodes, their methods, dict's own, C functions.
"""

from __future__ import annotations

import bisect
import collections
import copy
import functools
import json
import operator
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from portrait import difference, portrait
from support import check


def _matched(d: Any) -> Any:
    match d:
        case {"a": value, **rest}:
            return value * 10 + len(rest)


def _extended(d: Any) -> Any:
    made: dict[str, Any] = {}
    made.update(d)
    return len(made)


def _or_in_place(d: Any) -> Any:
    d |= {"z": 5}
    return len(d)


def _cleared(d: Any) -> Any:
    d.clear()
    return len(d)


def _updated(d: Any) -> Any:
    dict.update(d, z=7)
    return d["z"] + len(d)


ASKED: dict[str, Callable[[Any], Any]] = {
    "[]": lambda d: d["a"],
    "get": lambda d: d.get("a"),
    "in": lambda d: "a" in d,
    "len": lambda d: len(d),
    "bool": lambda d: bool(d),
    "dict.get": lambda d: dict.get(d, "a"),
    "dict.__getitem__": lambda d: dict.__getitem__(d, "a"),
    "dict.__len__": lambda d: dict.__len__(d),
    "dict.items": lambda d: sum(v for _, v in dict.items(d)),
    "dict.keys": lambda d: len(list(dict.keys(d))),
    "dict.copy": lambda d: len(dict.copy(d)),
    "dict.__contains__": lambda d: dict.__contains__(d, "a"),
    "dict.values": lambda d: sum(dict.values(d)),
    "fromkeys": lambda d: len(dict.fromkeys(d)),
    "dict()": lambda d: len(dict(d)),
    "**": lambda d: len({**d, "z": 1}),
    "|": lambda d: len(d | {}),
    "r|": lambda d: len({} | d),
    "==": lambda d: {"a": 1, "k0": 0} == d,
    "!=": lambda d: d != {},
    "list": lambda d: len(list(d)),
    "set": lambda d: len(set(d)),
    "__class__": lambda d: d.__class__ is dict,
    "type": lambda d: type(d) is dict,
    "isinstance": lambda d: isinstance(d, dict),
    "call": lambda d: (lambda **k: len(k))(**d),
    "f-string": lambda d: len(f"{d}"),
    "str": lambda d: len(str(d)),
    "tuple": lambda d: len((*d,)),
    "pop": lambda d: d.pop("a"),
    "setdefault": lambda d: d.setdefault("z", 3),
    "in keys": lambda d: "a" in d.keys(),
    "bound": lambda d: sum(map(d.get, ["a"])),
    "itemgetter": lambda d: operator.itemgetter("a")(d),
    "format_map": lambda d: len("{a}".format_map(d)),
    "%": lambda d: len("%(a)s" % d),
    "ChainMap": lambda d: collections.ChainMap(d)["a"],
    "OrderedDict": lambda d: len(collections.OrderedDict(d)),
    "json": lambda d: len(json.dumps(d)),
    "copy": lambda d: len(copy.copy(d)),
    "deepcopy": lambda d: len(copy.deepcopy(d)),
    "proxy": lambda d: len(types.MappingProxyType(d)),
    "namespace": lambda d: types.SimpleNamespace(**d).a,
    "zip": lambda d: len(list(zip(d, d))),
    "Counter": lambda d: sum(collections.Counter(d).values()),
    "sorted": lambda d: len(sorted(d)),
    "reversed": lambda d: len(list(reversed(d))),
    "join": lambda d: len(",".join(d)),
    "match": _matched,
    "update": _extended,
    "|=": _or_in_place,
    "clear": _cleared,
    "popitem": lambda d: d.popitem()[1],
    "dict.update": _updated,
    "dict.__eq__": lambda d: dict.__eq__(d, {}) is True,
}


class Holder:
    pass


def _as_argument(i: int) -> tuple[Any, Callable[[Any], Any]]:
    return {"a": i + 1, f"k{i}": i}, lambda d: d


def _as_attributes(i: int) -> tuple[Any, Callable[[Any], Any]]:
    holder = Holder()
    holder.__dict__.update({"a": i + 1, f"k{i}": i})
    return holder, lambda h: h.__dict__


@pytest.mark.parametrize("large", [4096, 1])
@pytest.mark.parametrize("make", [_as_argument, _as_attributes])
@pytest.mark.parametrize("how", ASKED)
def test_views_answer_as_dictionaries_do(how: str, make: Any, large: int) -> None:
    ask, (_, reach) = ASKED[how], make(0)

    def f(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * ask(reach(given))

    compiled = framelift.compile(f, backend="eager")
    with config.patch(large_container=large):
        for i in range(3):
            (mine, _), (other, _) = make(i), make(i)
            assert torch.equal(compiled(torch.ones(2), mine), f(torch.ones(2), other))
            assert reach(mine) == reach(other) and list(reach(mine)) == list(reach(other))


def test_who_wants_no_break_gets_larger_containers_whole() -> None:
    numbers, table = [(n, str(n)) for n in range(5000)], {n: -n for n in range(5000)}

    def f(x: torch.Tensor) -> Any:
        return x + len(sorted(numbers)), numbers == [*enumerate(map(str, range(5000)))], sum(table.values())

    x = torch.ones(2)
    compiled = framelift.compile(f, backend="eager", fullgraph=True)
    assert compiled(x)[1:] == f(x)[1:]
    numbers[4999] = (4999, "another")
    assert compiled(x)[1:] == f(x)[1:] == (False, sum(table.values()))


# ---- lists whose length changes --------------------------------------------------------------------------------------


def _extended_by(d: Any) -> Any:
    made = [1]
    alias = made
    made += d
    made.extend(d)
    made[:1] = d
    return len(made) + len(alias) * 100


def _in_place(d: Any) -> Any:
    alias = d
    d += [4]
    d *= 2
    return len(d) + (alias is d) * 100


def _grown(d: Any) -> Any:
    d.append(7)
    d.append(8)
    return d[-1] * 100 + d[-2] * 10 + d[-3] + len(d) + d[0] + bool(d)


def _grown_and_walked(d: Any) -> Any:
    d.append(7)
    return sum(d) + d.index(7)


def _grown_after(d: Any) -> Any:
    total = sum(d)
    d.append(total)
    return d[-1] + len(d) + d.pop()


def _sorted_in_place(d: Any) -> Any:
    d.sort(key=lambda item: -item)
    d.reverse()
    d.insert(0, 9)
    d.remove(0)
    return d[0] + d[1] * 10


def _matched_list(d: Any) -> Any:
    match d:
        case [first, *rest]:
            return first + len(rest)


def _unpacked(d: Any) -> Any:
    first, *rest = d
    return first + len(rest) + len([*d, 1]) + len((*d,))


def _missing(d: Any) -> Any:
    try:
        return d[100]
    except IndexError:
        return len(d) * 3


ASKED_OF_LISTS: dict[str, Callable[[Any], Any]] = {
    "len": lambda d: len(d),
    "len arithmetic": lambda d: (len(d) - 1) * 2 + max(len(d), 3),
    "[0]": lambda d: d[0],
    "[-1]": lambda d: d[-1],
    "[len-1]": lambda d: d[len(d) - 1],
    "[:]": lambda d: len(d[1:]),
    "bool": lambda d: 3 if d else 4,
    "not": lambda d: not d,
    "missing": _missing,
    "in": lambda d: 1 in d,
    "sum": lambda d: sum(d),
    "max": lambda d: max(d),
    "for": lambda d: [v * 2 for v in d][-1],
    "+": lambda d: len(d + [1]),
    "r+": lambda d: len([1] + d),
    "+=": _extended_by,
    "*": lambda d: len(d * 2) + len(3 * d),
    "==": lambda d: d == [0, 1],
    "r==": lambda d: [0, 1] == d,
    "<": lambda d: [0, 5] < d,
    "!=": lambda d: (0, 1) != d,
    "list.__eq__": lambda d: list.__eq__([0], d) is True,
    "bound eq": lambda d: [0].__eq__(d) is True,
    "bound add": lambda d: len([0].__add__(d)),
    "list.__add__": lambda d: len(list.__add__([0], d)),
    "concat": lambda d: len(operator.concat([1], d)),
    "list.append": lambda d: (list.append(d, 5), len(d))[1],
    "list.__len__": lambda d: list.__len__(d),
    "list.__getitem__": lambda d: list.__getitem__(d, 0),
    "d.__len__": lambda d: d.__len__(),
    "iadd": lambda d: len(operator.iadd([1], d)),
    "type": lambda d: type(d) is list,
    "isinstance": lambda d: isinstance(d, list),
    "class": lambda d: d.__class__ is list,
    "in place": _in_place,
    "append": _grown,
    "append and walk": _grown_and_walked,
    "walk and append": _grown_after,
    "sort": _sorted_in_place,
    "match": _matched_list,
    "unpack": _unpacked,
    "repr": lambda d: len(repr(d)) + len(f"{d}") + len("%s" % d),
    "join": lambda d: len(",".join(map(str, d))),
    "copy": lambda d: len(copy.copy(d)),
    "deepcopy": lambda d: len(copy.deepcopy(d)),
    "json": lambda d: len(json.dumps([d, {"d": d}])),
    "tuple": lambda d: len(tuple(d)) + len(list(d)) + len(set(d)) + len(dict.fromkeys(d)),
    "enumerate": lambda d: sum(i * v for i, v in enumerate(d)),
    "zip": lambda d: len(list(zip(d, d))),
    "reversed": lambda d: next(reversed(d)),
    "iter": lambda d: next(iter(d)),
    "sorted": lambda d: sorted(d, reverse=True)[0],
    "count": lambda d: d.count(1) + d.index(0),
    "bytes": lambda d: len(bytes(d)) + len(bytearray(d)),
    "deque": lambda d: collections.deque(d)[-1],
    "reduce": lambda d: functools.reduce(operator.add, d),
    "call": lambda d: (lambda *a: len(a))(*d),
    "tensor": lambda d: torch.tensor(d).sum(),
    "index": lambda d: torch.arange(20)[d].sum(),
    "size": lambda d: torch.ones(len(d)).sum(),
    "view": lambda d: torch.zeros(1, 1).reshape(1, *[1 for _ in d]).dim(),
    "nested": lambda d: [d, d][0] is d,
    "key": lambda d: {len(d): 1}[len(d)],
    "range": lambda d: sum(range(len(d))),
    "map": lambda d: sum(map(d.__getitem__, [0])),
    "bisect": lambda d: bisect.bisect(d, 1),
    "full": lambda d: torch.full((2,), 1).new_ones(d[-1:] or [1]).sum(),
    "stack": lambda d: torch.stack([torch.tensor(v) for v in d]).sum(),
    "setitem": lambda d: (d.__setitem__(0, 5), d[0] + d[-1])[1],
    "clear": lambda d: (d.clear(), len(d))[1],
    "del": lambda d: (d.__delitem__(0), len(d))[1],
    "all": lambda d: all(d) + any(d) * 2,
}


def _list_argument(i: int) -> tuple[Any, Callable[[Any], Any]]:
    return [*range(i)], lambda d: d


def _list_attribute(i: int) -> tuple[Any, Callable[[Any], Any]]:
    holder = Holder()
    holder.d = [*range(i)]
    return holder, lambda h: h.d


@pytest.mark.parametrize("large", [4096, 1])
@pytest.mark.parametrize("make", [_list_argument, _list_attribute])
@pytest.mark.parametrize("how", ASKED_OF_LISTS)
def test_lists_that_grow_answer_as_lists_do(how: str, make: Any, large: int) -> None:
    ask, (_, reach) = ASKED_OF_LISTS[how], make(0)

    def f(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * ask(reach(given))

    compiled = framelift.compile(f, backend="eager")
    with config.patch(large_container=large):
        for i in (2, 3, 5, 4):
            (mine, _), (other, _) = make(i), make(i)
            assert torch.equal(compiled(torch.ones(2), mine), f(torch.ones(2), other))
            assert reach(mine) == reach(other)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("how", ["len", "len arithmetic", "[0]", "bool", "append", "nested"])
def test_lists_that_grow_are_captured_twice(how: str, dynamic: bool | None) -> None:
    ask = ASKED_OF_LISTS[how]
    compiled = framelift.compile(lambda x, d: x * ask(d), backend="eager", dynamic=dynamic)
    before = framelift.stats()["captures"]
    for i in range(1, 12):
        compiled(torch.ones(2), [3, *range(i)])
    assert framelift.stats()["captures"] - before <= 3


# ---- what a view leaves behind --------------------------------------------------------------------------------------


def _break(tensor: torch.Tensor) -> None:
    framelift.graph_break()


def _held_get(x: Any, d: Any) -> Any:
    get = d.get
    _break(x)
    d["later"] = 5
    return x * get("later") + get("a"), get.__self__ is d, type(get).__name__


def _held_items(x: Any, d: Any) -> Any:
    x = x * d["a"]
    items, keys, values = d.items(), d.keys(), d.values()
    _break(x)
    d["later"] = 5
    return x + len(items), list(items), list(keys), list(values)


def _held_method_of_whole(x: Any, d: Any) -> Any:
    items = d.items
    x = x * len(d)
    _break(x)
    d["later"] = 7
    return x + 1, list(items())


def _held_iterator(x: Any, d: Any) -> Any:
    walk = iter(d)
    first = next(walk)
    _break(x)
    return x * d[first], list(walk)


def _in_loop(x: Any, d: Any) -> Any:
    for key, value in d.items():
        x = x + value
        _break(x)
    return x, key


def _written(x: Any, d: Any) -> Any:
    d["out"] = x * d["a"]
    _break(x)
    d["more"] = d["out"] + 1
    d.pop("a")
    return len(d)


def _stored(x: Any, d: Any) -> Any:
    holder = Holder()
    holder.d, holder.get, holder.items = d, d.get, d.items()
    _break(x)
    return x * holder.get("a"), holder.d is d, len(holder.items)


def _stored_outside(x: Any, d: Any) -> Any:
    d["self"] = d
    d["get"] = d.get
    return x * d["self"]["a"], d["get"]("a")


def _nested(x: Any, d: Any) -> Any:
    inner = {"d": d, "pair": (d, d)}
    _break(x)
    return x * inner["d"]["a"], inner["pair"][0] is d


def _methods(x: Any, d: Any) -> Any:
    return x * 2, d.get, d.items, d.setdefault, d.__getitem__, d.__contains__


def _updated_before(x: Any, d: Any) -> Any:
    d.update({"b": 3})
    _break(x)
    return x * d["b"], d.setdefault("c", 4)


def _partial(x: Any, d: Any) -> Any:
    take = functools.partial(d.get, "a")
    _break(x)
    return x * take()


def _changed(x: Any, d: Any) -> Any:
    d |= {"z": x}
    d["a"] += 1
    del d["k0"]
    same = d
    same.update(y=2)
    return x * d["a"], same is d, [*d], d == {"a": 2}, d.copy() is d


LEFT = [
    _held_get,
    _held_items,
    _held_method_of_whole,
    _held_iterator,
    _in_loop,
    _written,
    _stored,
    _stored_outside,
    _nested,
    _updated_before,
    _partial,
    _changed,
]


@pytest.mark.parametrize("program", LEFT)
def test_what_is_taken_from_a_view_is_the_dictionary_s_own(program: Callable[..., Any]) -> None:
    compiled = framelift.compile(program, backend="eager")
    for i in range(3):
        given = [{"a": i + 1, "k0": i, **({f"k{i}": i} if i == 2 else {})} for _ in range(2)]
        got, want = compiled(torch.ones(2), given[0]), program(torch.ones(2), given[1])
        assert difference(portrait((got, given[0])), portrait((want, given[1]))) is None


def _list_held(x: Any, d: Any) -> Any:
    append, pop, length = d.append, d.pop, len(d)
    d.append(x * length)
    _break(x)
    append(length)
    return x * len(d), pop(), type(append).__name__, append.__self__ is d


def _list_walked(x: Any, d: Any) -> Any:
    for item in d:
        x = x + len(d) + item
        _break(x)
    return x


def _list_iterator(x: Any, d: Any) -> Any:
    walk = iter(d)
    first = next(walk)
    _break(x)
    return x * first, list(walk)


def _list_stored(x: Any, d: Any) -> Any:
    holder = Holder()
    holder.d, holder.append, holder.last = d, d.append, d[-1]
    x = x + len(d)
    _break(x)
    holder.append(x)
    return holder, holder.d is d, len(d)


def _list_in_itself(x: Any, d: Any) -> Any:
    d.append(d)
    d.append({"d": d, "n": len(d)})
    return x + len(d), d[-2] is d, d[-1]["d"] is d


def _list_of_results(x: Any, d: Any) -> Any:
    y = x * len(d)
    d.append(y)
    d.append(x)
    return y, d[-1] is x, d[-2] is y


@pytest.mark.parametrize(
    "program", [_list_held, _list_walked, _list_iterator, _list_stored, _list_in_itself, _list_of_results]
)
def test_what_is_taken_from_a_list_that_grows_is_its_own(program: Callable[..., Any]) -> None:
    compiled = framelift.compile(program, backend="eager")
    for i in (1, 2, 3, 5):
        given = [[*range(1, i + 1)] for _ in range(2)]
        tensors = [torch.ones(2) for _ in range(2)]
        got, want = compiled(tensors[0], given[0]), program(tensors[1], given[1])
        assert difference(portrait((got, given[0], tensors[0])), portrait((want, given[1], tensors[1]))) is None


def test_methods_of_a_view_are_the_dictionary_s() -> None:
    compiled, d = framelift.compile(_methods, backend="eager"), {"a": 1}
    for _ in range(2):
        _, *methods = compiled(torch.ones(2), d)
        assert methods == [d.get, d.items, d.setdefault, d.__getitem__, d.__contains__]
        assert [type(m) for m in methods] == [type(m) for m in _methods(torch.ones(2), d)[1:]]
        d[f"k{len(d)}"] = 2


def test_keys_that_nobody_asks_for_may_change() -> None:
    def program(x: torch.Tensor, d: dict[str, Any]) -> Any:
        y = x * d["a"] + d.get("none", 1)
        return (y, d.get) if "flag" in d else y

    compiled = framelift.compile(program, backend="eager")
    before = framelift.stats()["captures"]
    for i in range(5):
        assert torch.equal(compiled(torch.ones(2), {"a": 3, f"k{i}": i}), torch.full((2,), 4.0))
    assert framelift.stats()["captures"] - before == 1


def test_functions_that_see_real_values_are_given_the_whole() -> None:
    @torch._dynamo.nonstrict_trace
    def total(d: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum(d.values())

    def program(x: torch.Tensor, d: dict[str, torch.Tensor]) -> torch.Tensor:
        return x + total(d)

    compiled = framelift.compile(program, backend="eager")
    for i in range(3):
        d = {"a": torch.full((2,), float(i)), "b": torch.ones(2)}
        assert torch.equal(compiled(torch.ones(2), d), torch.full((2,), 2.0 + i))


class Held:
    def __init__(self) -> None:
        self.n = 5


POOL: list[Held] = []


@framelift.disable
def unseen(value):
    return value


def test_a_dictionary_of_attributes_that_is_handed_over_is_still_the_objects() -> None:
    def updated(x, o):
        o.__dict__.update(n=unseen(7))
        return x + o.n

    def written(x, o):
        table = o.__dict__
        unseen(1)
        table["n"] = 8
        return x + o.n

    def read(x, o):
        table = vars(o)
        unseen(1)
        o.n = 9
        o.m = 3
        return x + table["n"], list(table), table.get("m")

    def viewed(x, o):
        table = vars(o)
        keys, items, values = table.keys(), table.items(), table.values()
        o.k = 1
        before = list(keys)
        unseen(1)
        o.m = 3
        return x + o.n, before, list(keys), list(items), list(values), keys

    for f in (updated, written, read, viewed):
        check(f, torch.ones(1), Held(), graphs=None, breaks=None, calls=3)


def test_a_dictionary_whose_object_is_met_later_ends_the_part_before_it() -> None:
    def f(x):
        max(POOL, key=lambda held: held.n).__dict__.update(n=unseen(0))
        [held for held in POOL if held][0].n = operator.attrgetter("n")
        return x + 1

    POOL[:] = [Held(), Held()]
    POOL[1].n = 7
    with framelift.config.patch(strict=True):
        assert framelift.compile(f, backend="eager")(torch.ones(1)).item() == 2
    assert POOL[1].n == 0 and POOL[0].n(POOL[1]) == 0


def test_a_dictionary_that_may_be_an_objects_attributes() -> None:
    def f(x, o, table):
        table["n"] = table["n"] + 1
        return x + o.n

    def g(x, table, o):
        o.n = o.n + 1
        return x + table["n"]

    for function in (f, g):
        compiled = framelift.compile(function, backend="eager")
        for same in (False, True, False, True):
            worlds = []
            for run in (function, compiled):
                o = Held()
                table = o.__dict__ if same else {"n": 1}
                worlds.append(
                    (
                        run(torch.ones(1), o, table).item() if function is f else run(torch.ones(1), table, o).item(),
                        o.n,
                        table["n"],
                    )
                )
            assert worlds[0] == worlds[1], (function.__name__, same, worlds)


TABLE: dict[str, int] = {}


@pytest.mark.parametrize("place", ["attribute", "global", "nested"])
def test_keys_of_dictionaries_anywhere_may_change(place: str) -> None:
    holder = Holder()
    holder.d = {"a": 3}
    holder.deep = {"d": holder.d}
    reach = {"attribute": lambda h: h.d, "global": lambda h: TABLE, "nested": lambda h: h.deep["d"]}[place]

    def program(x: torch.Tensor, h: Any) -> torch.Tensor:
        table = reach(h)
        return x * table["a"] + table.get("late", 0)

    compiled = framelift.compile(program, backend="eager")
    before = framelift.stats()["captures"]
    TABLE.clear()
    TABLE["a"] = 3
    for i in range(6):
        reach(holder)[f"k{i}"] = i
        assert torch.equal(compiled(torch.ones(2), holder), program(torch.ones(2), holder))
    assert framelift.stats()["captures"] - before == 2
    reach(holder)["late"] = 5
    assert torch.equal(compiled(torch.ones(2), holder), program(torch.ones(2), holder))


HELD = {str(i): i for i in range(5000)}


def test_a_view_inside_of_what_c_code_goes_through() -> None:
    """Its entries are not in its memory."""
    check(
        lambda x: (x + 1, len(json.dumps([HELD])), len(json.dumps({"a": (HELD, 1)}))),
        torch.ones(2),
        graphs=None,
        breaks=None,
    )


def test_what_has_no_hash_is_no_key_of_an_instance() -> None:
    def program(x, obj):
        said = []
        for key in ([], ([],), {}, 3, (1,), None):
            for ask in (vars(obj).__contains__, vars(obj).get, vars(obj).__getitem__):
                try:
                    said.append(ask(key))
                except (TypeError, KeyError) as error:
                    said.append(repr(error))
        return x + 1, said

    check(program, torch.ones(2), types.SimpleNamespace(a=1))
    check(program, torch.ones(2), torch.nn.ReLU())


#: what CPython says of a container by the name of its class, or by the flags and methods of the class
SAYINGS = {
    "hash": lambda c: hash(c),
    "attribute": lambda c: c.nope,
    "iterator": lambda c: next(c),
    "add": lambda c: c + 1,
    "added": lambda c: 1 + c,
    "less": lambda c: c < 1,
    "index": lambda c: c["zz"],
    "fraction": lambda c: c[1.5],
    "call": lambda c: c(),
    "names": lambda c: dir(c),
    "hashable": lambda c: isinstance(c, collections.abc.Hashable),
    "sequence": lambda c: isinstance(c, collections.abc.Sequence),
}


@pytest.mark.parametrize("saying", list(SAYINGS))
@pytest.mark.parametrize(
    "make",
    [lambda: [1, 2], lambda: collections.deque([1, 2]), lambda: {1, 2}, lambda: {"a": 1}],
    ids=["list", "deque", "set", "dict"],
)
def test_views_are_called_what_they_stand_for(make, saying):
    container, ask = make(), SAYINGS[saying]

    def program(x):
        try:
            found = ask(container)
        except (TypeError, AttributeError, KeyError) as error:
            found = type(error), str(error)
        return x + len(container), found

    compiled = framelift.compile(program, backend="eager")
    for step in range(4):
        expected, found = program(torch.ones(2)), compiled(torch.ones(2))
        assert torch.equal(expected[0], found[0]) and expected[1] == found[1]
        if isinstance(container, dict):
            container[str(step)] = step
        else:
            (container.add if isinstance(container, set) else container.append)(step + 10)

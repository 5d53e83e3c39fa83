"""What captured code sees in place of an external object answers as that object does, wherever it was found."""

from __future__ import annotations

import collections.abc
import copy
import functools
import inspect
import itertools
import json
import threading
import types
import weakref
from typing import Any

import pytest
import torch

from support import check, compiled, counts

X = torch.ones(2)


class Thing:
    k = 2


def _cached() -> Any:
    @functools.lru_cache
    def cached() -> int:
        return 1

    cached.k = 2  # type: ignore[attr-defined]
    return cached


def test_attributes_of_a_cache_in_a_class() -> None:
    class Box:
        cache = _cached()

    captured = compiled(lambda x: x * Box.cache.k)  # type: ignore[attr-defined]
    assert torch.equal(captured(X), X * 2)
    Box.cache.k = 5  # type: ignore[attr-defined]
    assert torch.equal(captured(X), X * 5)


def test_a_method_of_a_list_in_a_class() -> None:
    data = [1, 2]

    class Box:
        count = data.count

    def program(x: Any) -> Any:
        return x + Box.count(2), Box.count.__self__ is data

    captured = compiled(program)
    for _ in range(3):
        result, same = captured(X)
        assert same and torch.equal(result, X + data.count(2))
        data.append(2)


def test_a_method_of_a_list_as_a_key() -> None:
    data = [1, 2]
    method = data.count
    table, elements = {method: 1}, {method}

    def program(x: Any, given: Any) -> Any:
        equal = hash(method) == hash(data.count)
        return (
            x + 1,
            table.get(data.count),
            method in given,
            given[method],
            method in elements,
            data.count in elements,
            list(given)[0] is method,
            equal,
        )

    captured = compiled(program)
    for _ in range(3):
        assert captured(X, table)[1:] == program(X, table)[1:]
        data.append(2)


@pytest.mark.parametrize("name", ["__doc__", "__module__", "__annotations__", "__slots__"])
@pytest.mark.parametrize(
    "make", [lambda: [1, 2], lambda: {"a": 1}, lambda: {1: 2}, lambda: {1, 2}, lambda: collections.deque([1])]
)
def test_containers_show_nothing_of_their_class(name: str, make: Any) -> None:
    def program(x: Any, given: Any) -> Any:
        try:
            return x + len(given), getattr(given, name)
        except AttributeError as error:
            return x + len(given), str(error)

    captured = compiled(program)
    given = make()
    for number in range(4):
        assert captured(X, given)[1] == program(X, given)[1]
        {
            list: list.append,
            dict: lambda d, n: d.update({n: n}),
            set: set.add,
            collections.deque: collections.deque.append,
        }[type(given)](given, number + 10)


def test_the_documentation_of_an_array() -> None:
    numpy = pytest.importorskip("numpy")
    check(lambda x, a: (x + 1, a.__doc__), X, numpy.ones(2))


def test_super_of_objects_that_are_not_known() -> None:
    method, storage = Thing.__init__, X.untyped_storage()
    bound = types.MethodType(lambda self: self, Thing())

    def program(x: Any, bound: Any, storage: Any) -> Any:
        return (
            x + super(torch.UntypedStorage, storage).nbytes(),
            super(types.MethodType, bound).__self__ is bound,
            super(type(method), method).__thisclass__,
        )

    captured = compiled(program)
    for _ in range(2):
        result = captured(X, bound, storage)
        expected = program(X, bound, storage)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]


def test_attributes_of_a_thread() -> None:
    local = threading.local()
    local.k = 2

    def program(x: Any) -> Any:
        try:
            found = object.__getattribute__(local, "k")
        except AttributeError as error:
            found = str(error)
        try:
            return x * local.k, found, local.missing
        except AttributeError as error:
            return x * local.k, found, str(error)

    captured = compiled(program)
    for value in (2, 5):
        local.k = value
        result, expected = captured(X), program(X)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]


def test_the_class_of_a_weak_proxy() -> None:
    kept = Thing()
    alive, dead = weakref.proxy(kept), weakref.proxy(Thing())

    def program(x: Any, proxy: Any) -> Any:
        try:
            return (
                x + 1,
                proxy.__class__,
                isinstance(proxy, Thing),
                isinstance(proxy, collections.abc.Hashable),
                type(proxy),
            )
        except ReferenceError as error:
            return x + 1, str(error)

    captured = compiled(program)
    for proxy in (alive, dead, alive):
        assert captured(X, proxy)[1:] == program(X, proxy)[1:]


def test_weak_references_that_are_compared() -> None:
    kept, other = Thing(), Thing()
    held = {"o": weakref.ref(kept)}
    first = weakref.ref(kept)

    def program(x: Any) -> Any:
        try:
            return (
                x + 1,
                held["o"] == first,
                held["o"] != first,
                {first: 1}.get(held["o"]),
                hash(held["o"]) == hash(first),
            )
        except TypeError as error:
            return x + 1, str(error)

    captured = compiled(program)
    for reference in (
        weakref.ref(kept),
        weakref.ref(other),
        weakref.ref(Thing()),
        weakref.ref(kept),
        weakref.ref(kept, lambda _: None),
        weakref.ref(other),
    ):
        held["o"] = reference
        assert captured(X)[1:] == program(X)[1:]


def test_one_weak_reference_is_not_pinned() -> None:
    class Box:
        def __init__(self, thing: Thing) -> None:
            self.reference = weakref.ref(thing)

    def program(x: Any, box: Any) -> Any:
        return x * box.reference().k

    captured, things = compiled(program), [Thing(), Thing(), Thing()]
    before = counts().captures
    for thing in things:
        assert torch.equal(captured(X, Box(thing)), X * 2)
    assert counts().captures == before + 1


def test_a_copy_of_an_iterator_goes_on_with_the_same_one() -> None:
    for make in (
        lambda rows: enumerate(rows),
        lambda rows: zip(rows, rows),
        lambda rows: map(id, rows),
        lambda rows: itertools.islice(rows, 3),
    ):
        found = []
        for wrap in (lambda f: f, compiled):
            iterator = make(iter([[1], [2], [3]]))

            def program(x: Any, iterator: Any = iterator) -> Any:
                return x + 1, copy.copy(iterator)

            _, made = wrap(program)(X)
            next(made)
            found.append(len(list(iterator)))
        assert found[0] == found[1]


def test_a_copy_of_a_generator_of_random_numbers() -> None:
    generator = torch.Generator().manual_seed(5)

    def program(x: Any) -> Any:
        return x + 1, copy.deepcopy(generator)

    made = compiled(program)(X)[1]
    assert type(made) is torch.Generator and torch.equal(made.get_state(), generator.get_state())


def test_a_scalar_of_numpy_as_json() -> None:
    numpy = pytest.importorskip("numpy")

    class Box:
        value = numpy.float64(2.5)

    captured = compiled(lambda x: (x + 1, json.dumps({"a": [Box.value]})))
    for number in (2.5, 3.5, 4.5):
        Box.value = numpy.float64(number)
        assert captured(X)[1] == json.dumps({"a": [number]})


def test_classes_read_by_the_descriptors_of_type() -> None:
    class Base:
        k = 2

    class Derived(Base):
        pass

    class Between(Base):
        pass

    own, order, name = (type.__dict__[one].__get__ for one in ("__dict__", "__mro__", "__name__"))

    def program(x: Any) -> Any:
        class Inside(Derived):
            z = 3

        return (
            x * own(Base)["k"] + type.__dict__["__dict__"].__get__(Inside)["z"],
            order(Derived),
            name(Derived),
            len(order(Inside)),
        )

    captured = compiled(program)

    def same() -> None:
        result, expected = captured(X), program(X)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]

    same()
    Base.k = 5
    same()
    Derived.__name__ = "Renamed"
    same()
    Derived.__bases__ = (Between,)
    same()


def test_attributes_looked_up_statically() -> None:
    class Thing:
        def __init__(self) -> None:
            self.size = 1

    def program(x: Any, thing: Any) -> Any:
        return (
            x + inspect.getattr_static(thing, "size"),
            inspect.getattr_static(thing, "nothing", 5),
            inspect.getattr_static(3, "__int__", None) is None,
        )

    captured, thing = compiled(program), Thing()
    for size in (1, 4):
        thing.size = size
        result, expected = captured(X, thing), program(X, thing)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]


def test_objects_read_by_descriptors_of_c_code() -> None:
    def function(a: int = 2) -> int:
        return a

    def closure() -> Any:
        held = 2
        return lambda: held

    module, partial, bound, inner = (
        types.ModuleType("a_module"),
        functools.partial(function, 2),
        types.MethodType(function, Thing()),
        closure(),
    )

    class Slotted:
        __slots__ = ("slot",)

    slotted = Slotted()
    vars(module)["k"] = slotted.slot = 2
    members: Any = vars(types.FunctionType)

    def program(x: Any) -> Any:
        return (
            x * members["__defaults__"].__get__(function)[0],
            members["__name__"].__get__(function),
            members["__dict__"].__get__(function).get("k"),
            members["__closure__"].__get__(inner)[0].cell_contents,
            vars(types.ModuleType)["__dict__"].__get__(module)["k"],
            vars(Slotted)["slot"].__get__(slotted),
            vars(functools.partial)["args"].__get__(partial),
            vars(types.MethodType)["__self__"].__get__(bound).k,
        )

    captured = compiled(program)

    def same() -> None:
        result, expected = captured(X), program(X)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]

    same()
    function.__defaults__, function.__name__, function.k = (5,), "other", 5  # type: ignore[attr-defined]
    inner.__closure__[0].cell_contents = vars(module)["k"] = slotted.slot = bound.__self__.k = 5
    same()

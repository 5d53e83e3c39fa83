"""functools.lru_cache from outside is called through, and logging asks for levels: neither may show more than plain
Python does.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import re
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import check


class Doubler:
    """A class with a cache as a method, as libraries have for messages that are told once."""

    def __init__(self) -> None:
        self.told: list[int] = []

    @functools.lru_cache(None)  # noqa: B019
    def twice(self, n: int) -> int:
        return 2 * n

    @functools.lru_cache(None)  # noqa: B019
    def tell(self, n: int) -> None:
        self.told.append(n)


def test_a_cache_is_a_method() -> None:
    doubler = Doubler()

    def f(x):
        return x * doubler.twice(3)

    check(f, torch.ones(2))


def test_a_cache_is_asked_in_a_body() -> None:
    """With an answer that is held, and with none; one that the body changes is not asked there."""
    table = functools.lru_cache(lambda: [2.0, 3.0])
    scale = functools.lru_cache(lambda n: (n, 1.5))

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x * table()[0] * scale(2)[1], lambda x: x * table()[1], (x,))

    def changed(x):
        return torch.cond(x.sum() > 0, lambda x: x * (table().append(4.0) or table()[-1]), torch.sin, (x,))

    def given(x):
        return torch.cond(x.sum() > 0, lambda x: x * (len(same(x))), torch.sin, (x,))

    same = functools.lru_cache(lambda x: x)
    for is_warm in (True, False):
        framelift.reset(), table.cache_clear(), scale.cache_clear()
        if is_warm:
            table(), scale(2)
        compiled = framelift.compile(f, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
        assert torch.equal(compiled(-torch.ones(2)), torch.full((2,), -3.0))
        assert table() is table() and table.cache_info().currsize == 1
    for refused in (changed, given):
        with pytest.raises(framelift.exc.Unsupported):
            framelift.compile(refused, backend="eager", fullgraph=True)(torch.ones(2))
    assert table() == [2.0, 3.0] and same.cache_info().currsize == 0


def test_what_a_cached_function_changes_it_changes_once() -> None:
    doubler, calls = Doubler(), []

    @functools.lru_cache(None)
    def cached(n):
        calls.append(n)
        return n * 2

    @functools.lru_cache(None)
    def drawn(n):
        return torch.rand(n)

    def f(x):
        doubler.tell(1)
        return x * cached(3) + drawn(2)

    compiled = framelift.compile(f, backend="eager")
    torch.manual_seed(0)
    first = compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), first)
    assert calls == [3] and doubler.told == [1]


def test_levels_of_loggers() -> None:
    log = logging.getLogger("framelift.tests.levels")
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    log.addHandler(Ear())
    log.propagate = False

    def run(make):
        heard.clear()

        @functools.lru_cache(None)
        def once(text):
            log.warning(text)

        def f(x):
            once("first")
            log.info("second")
            return x + 1 if log.isEnabledFor(logging.WARNING) else x - 1

        results, compiled = [], make(f)
        for level in (logging.ERROR, logging.WARNING, logging.WARNING):
            log.setLevel(level)
            results.append((compiled(torch.ones(())).item(), list(heard)))
        once.cache_clear()
        return [*results, compiled(torch.ones(())).item(), list(heard)]

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_levels_are_read_in_one_graph() -> None:
    log = logging.getLogger("framelift.tests.levels.one")
    log.setLevel(logging.ERROR)
    once = functools.lru_cache(None)(log.warning)
    compiled = framelift.compile(lambda x: (once("first"), x + log.isEnabledFor(30)), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(())) == (None, 0)


def test_padding_is_as_in_plain_python() -> None:
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    x, mask = torch.rand(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        want = encoder(x, src_key_padding_mask=mask)
        torch.testing.assert_close(framelift.compile(encoder, backend="eager")(x, src_key_padding_mask=mask), want)
        whole = framelift.compile(encoder, backend="eager", fullgraph=True)(x, src_key_padding_mask=mask)
    torch.testing.assert_close(whole[~mask], want[~mask])


def test_one_answer_for_one_key() -> None:
    @functools.lru_cache(None)
    def pair(n):
        return (n, n + 1000)

    @functools.lru_cache(maxsize=8, typed=True)
    def by_type(n):
        return n, "typed"

    def f(x, n):
        return (
            x + pair(n)[1],
            pair(n) is pair(n=n),
            pair(n) is pair(n),
            pair(n) is pair(float(n)),
            by_type(n) is by_type(float(n)),
            by_type(1)[0],
        )

    check(f, torch.ones(2), 3)

    @functools.lru_cache(None)
    def both(n, m):
        return n, m, "both"

    check(
        lambda x, n: (
            x + 1,
            both(n, 2),
            both(n, 2.0) is both(float(n), 2),
            both(True, 2),
            both(1, 2),
            both(True, 2) is both(1, 2),
            both((n, 1), 2) is both((3.0, 1), 2),
        ),
        torch.ones(2),
        3,
    )


@pytest.mark.parametrize(
    "make", [lambda n: [n], lambda n: {"n": n}, lambda n: types.SimpleNamespace(n=n), lambda n: ([n], n)]
)
def test_a_cached_object_is_the_one_that_others_hold(make) -> None:
    kept = functools.lru_cache(None)(make)
    held = kept(3)

    def f(x):
        return x + 1, kept(3) is held, kept(3), str(kept(3))

    compiled = framelift.compile(f, backend="eager")
    for change in (
        lambda: None,
        lambda: None,
        lambda: getattr(held, "append", id)(4),
        lambda: getattr(held, "update", dict)(more=4),
    ):
        change()
        assert compiled(torch.ones(2))[1:] == (True, held, str(held))
        assert compiled(torch.ones(2))[2] is held


def test_a_cached_list_that_is_changed() -> None:
    @functools.lru_cache(None)
    def kept(n):
        return [n]

    def f(x):
        kept(1).append(2)
        return x + len(kept(1))

    compiled = framelift.compile(f, backend="eager")
    assert [int(compiled(torch.zeros(()))) for _ in range(3)] == [2, 3, 4]


def test_a_cache_asked_by_sizes_is_asked_for_all_of_them() -> None:
    @functools.lru_cache(8)
    def shapes(shape, width, name="x"):
        rows, columns = shape
        return (rows * columns // width, width), name

    def f(x):
        return x.reshape(*shapes(tuple(x.shape), 2)[0]) + shapes(tuple(x.shape), 2, name="y")[0][0]

    def longer(i, world):
        world.args[0] = torch.rand(2 + i, 4)

    check(f, torch.rand(2, 4), mutate=longer, calls=6, captures=2, graphs=2)

    def both(x, y):
        first, second = shapes((x.shape[0], 4), 2), shapes((y.shape[0], 4), 2)
        return x * first[0][0], y + second[0][0], first is second

    def either(i, world):
        world.args[:] = torch.rand(2 + i % 3), torch.rand(3)

    check(both, torch.rand(2), torch.rand(3), mutate=either, calls=7, captures=None, graphs=None)


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    pass


ALIASES: list[tuple[str, typing.Callable[[], typing.Any]]] = [
    ("class", lambda: Box[int]),
    *([("variable", lambda: Box[T])] if sys.version_info < (3, 12) else []),  # a C type since 3.12: a graph break
    ("nested", lambda: Box[Box[int]]),
    ("optional", lambda: typing.Optional[Box[int]]),
    ("mapping", lambda: typing.Dict[str, typing.List[int]]),
    ("callable", lambda: typing.Callable[[int], str]),
    ("literal", lambda: typing.Literal[1, 2]),
    ("annotated", lambda: typing.Annotated[int, "note"]),
    ("copy", lambda: copy.copy(Box[int])),
    ("deepcopy", lambda: copy.deepcopy(Box[int])),
]


@pytest.mark.parametrize("make", [make for _, make in ALIASES], ids=[name for name, _ in ALIASES])
def test_what_the_typing_module_keeps_is_one_object(make: typing.Callable[[], typing.Any]) -> None:
    held = make()
    compiled = framelift.compile(lambda x: (x + 1, make(), make() is held), backend="eager", fullgraph=True)
    for _ in range(2):
        _, found, same = compiled(torch.ones(2))
        assert found is held and same


def test_aliases_of_a_class_made_inside_are_not_kept_by_the_typing_module() -> None:
    def f(x):
        class Local(typing.Generic[T]):
            pass

        return x + 1, Local[int] is Local[int], Local[int].__origin__ is Local

    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == (True, True)


def test_an_alias_that_a_cache_of_the_program_keeps_is_one_object() -> None:
    kept = functools.lru_cache(None)(lambda item: list[item])
    held = kept(int)
    compiled = framelift.compile(lambda x: (x + 1, kept(int) is held, kept(int)), backend="eager")
    for _ in range(2):
        _, same, found = compiled(torch.ones(2))
        assert same and found is held


def test_a_result_that_a_cache_holds_for_a_tensor_outlives_writes_to_it() -> None:
    def program():
        @functools.lru_cache(None)
        def total(t):
            return t.sum()

        def f(x):
            y = total(x) + 1
            x.add_(1)
            return y

        return f

    def outcomes(f):
        x = torch.ones(3)
        return [float(f(x)) for _ in range(3)]

    assert outcomes(framelift.compile(program(), backend="eager")) == outcomes(program()) == [4.0, 4.0, 4.0]


def test_making_an_alias_runs_no_code_of_a_metaclass_once_more() -> None:
    log: list[str] = []

    class Logging(type):
        def __getattribute__(cls, name: str) -> typing.Any:
            log.append(name)
            return super().__getattribute__(name)

    class Kept(typing.Generic[T], metaclass=Logging):
        pass

    def f(x):
        return x + 1, Kept[str]

    f(1)  # from now on the typing module has it
    log.clear()
    f(1)
    want = list(log)
    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        log.clear()
        assert compiled(torch.ones(2))[1] is Kept[str]
        assert log == want * 2  # the last one is of this test


@pytest.mark.parametrize(
    "use",
    [
        lambda kept: kept,
        lambda kept: kept[1:],
        lambda kept: kept.add_(1).sum(),
        lambda kept: kept[0].mul_(2) * 1,
        lambda kept: kept * 2,
    ],
    ids=["leaves", "view leaves", "written", "view written", "only read"],
)
def test_a_tensor_that_a_cache_keeps_is_one_tensor(use) -> None:
    found = []
    for is_captured in (False, True):
        cached = functools.lru_cache(lambda n: torch.ones(n))
        program = lambda x: (x + 1, use(cached(3)))  # noqa: E731
        compiled = framelift.compile(program, backend="eager") if is_captured else program
        results = []
        for _ in range(3):
            result = compiled(torch.ones(2))[1]
            results.append((result.tolist(), result.data_ptr() == cached(3).data_ptr(), cached(3).tolist()))
            if result.dim():
                result.add_(1)  # others see it where it is the one that is kept
        found.append(results)
    assert found[0] == found[1]


@functools.lru_cache
def _pattern(text):
    return re.compile(text)


def test_a_cache_of_patterns() -> None:
    def f(x, text):
        return x + 1, _pattern("a+").match(text).group(), _pattern("a+") is _pattern("a+")

    check(f, torch.ones(2), "aab")
    framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2), "aab")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="type variables are C objects: a graph break")
def test_aliases_of_type_variables_made_inside() -> None:
    def f(x):
        key, value = typing.TypeVar("key"), typing.TypeVar("value")

        class Pair(typing.Generic[key, value]):
            pass

        class Half(Pair[int, value]):
            pass

        listed = typing.List[Half[str]]  # noqa: UP006
        shown = Half.__orig_bases__[0].__args__[0], listed.__args__[0].__args__, Half.__parameters__[0].__name__
        return x + 1, shown, Pair[int, str] is Pair[int, str]

    check(f, torch.ones(2), graphs=None, breaks=None, fullgraph=False)


def test_copies_of_caches_that_a_class_holds():
    cache = functools.lru_cache

    class Holder:
        @cache()
        def method(self, number):
            return number + 1

        static = staticmethod(cache()(lambda number: number * 2))

    def program(x):
        method, static = Holder.method, Holder.static
        return x + 1, [copy.copy(one) is one and copy.deepcopy(one) is one for one in (method, static)]

    check(program, torch.ones(2), graphs=None)


class _Weighted:
    def __init__(self, weight):
        self.weight = weight

    @functools.lru_cache  # noqa: B019
    def scaled(self, number):
        return self.weight * 10 + number

    @functools.lru_cache(maxsize=1)  # noqa: B019
    def tensor(self):
        return torch.full((2,), float(self.weight))


class _Equal:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return isinstance(other, _Equal) and self.value == other.value


_read = [0]  # what cached functions read besides their arguments


def _of_number(cache):
    kept = cache(lambda number: number + _read[0])
    return lambda x, number: x + kept(number)


def _of_names(cache):
    @cache
    def kept(number, *, more=1, **named):
        return number + _read[0] + more + len(named)

    return lambda x, number: x + kept(number, more=2) + kept(number) + kept(number, other=1) + kept(float(number))


def _of_tuple(cache):
    kept = cache(lambda number: (number, _read[0]))
    return lambda x, number: (x + kept(number)[1], kept(number))


def _of_list(cache):
    kept = cache(lambda number: [number, _read[0]])

    def program(x, number):
        found = kept(number)
        found.append(len(found))
        return x + len(found), found, found is kept(number)

    return program


def _of_tensor(cache):
    kept = cache(lambda number: torch.full((2,), float(number + _read[0])))

    def program(x, number):
        with torch.no_grad():
            return x + kept(number)

    return program


def _of_equal(cache):
    kept = cache(lambda key: key.value + _read[0])
    return lambda x, number: x + kept(_Equal(number))


def _of_itself(cache):
    @cache
    def kept(number):
        return number + _read[0] if number < 2 else kept(number - 1) + kept(number - 2)

    return lambda x, number: x + kept(number)


def _of_text(cache):
    kept = cache(lambda text: len(text) + _read[0])
    return lambda x, number: x + kept("a" * number)


@pytest.mark.parametrize(
    "make", [_of_number, _of_names, _of_tuple, _of_list, _of_tensor, _of_equal, _of_itself, _of_text]
)
@pytest.mark.parametrize("options", [{}, {"maxsize": None}, {"maxsize": 2}, {"maxsize": 0}, {"typed": True}], ids=str)
def test_an_answer_stays_though_what_it_was_made_of_changes(make, options) -> None:
    def run(compile_):
        caches = []

        def cache(function):
            caches.append(functools.lru_cache(**options)(function))
            return caches[-1]

        program, found = compile_(make(cache)), []
        for step, number in enumerate((1, 1, 2, 3, 1, 2, 2, 1)):
            _read[0] = step
            found.append(repr(program(torch.zeros(2), number)))
            if step == 5:
                for one in caches:
                    one.cache_clear()
        return found

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_a_cached_method_of_several_objects() -> None:
    def program(x, held):
        return x + held.scaled(1), x * held.tensor()

    def run(compile_):
        function, found = compile_(program), []
        first, second = _Weighted(1), _Weighted(2)
        for step, held in enumerate((first, first, second, second, first, second, first)):
            held.weight += step
            found.append(repr(function(torch.ones(2), held)))
            if step == 4:
                _Weighted.scaled.cache_clear()
        return found

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_a_tensor_in_a_cache_that_others_write_to() -> None:
    kept = functools.lru_cache(lambda number: torch.ones(number))

    def program(x):
        return x + kept(3)

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for step in range(4):
        assert torch.equal(compiled(torch.zeros(3)), program(torch.zeros(3)))
        kept(3).add_(step)


def test_a_first_call_fills_the_cache() -> None:
    @functools.lru_cache
    def kept(number):
        return number if number < 2 else kept(number - 1) + kept(number - 2)

    compiled = framelift.compile(lambda x: x + kept(9), backend="eager", fullgraph=True)
    assert kept.cache_info().currsize == 0
    assert [compiled(torch.zeros(())).item() for _ in range(3)] == [34.0] * 3
    assert kept.cache_info().currsize == 10 and len(framelift.stats()["recompiles"]) == 0


def _replaced(x: torch.Tensor, text: str) -> typing.Any:
    swapped = re.sub(r"(a)(b)", r"\2\1", text)
    return (
        x + len(swapped),
        swapped,
        re.compile("(.)").subn(r"<\1>", text, 1),
        re.match("(?P<n>.)", text).expand(r"\g<n>!"),
    )


def test_texts_are_replaced_by_patterns() -> None:
    """Since CPython 3.13 the flags and the count that nobody gave are a 0 of a class of their own."""

    def f(x: Any, text: str) -> Any:
        return x + len(re.sub("[0-9]+", "n", text)), re.split(", *", text), re.subn("b", "", text, flags=re.IGNORECASE)

    check(f, torch.ones(2), "a1, B22", mutate=lambda i, world: world.args.__setitem__(1, "b333, b"), graphs=2)


def test_what_the_module_re_keeps_of_templates_nobody_else_sees() -> None:
    compiled = framelift.compile(_replaced, backend="eager", fullgraph=True)
    for text in ("abab", "xab", "abab"):
        (y, *found), (z, *plain) = compiled(torch.ones(2), text), _replaced(torch.ones(2), text)
        assert torch.equal(y, z) and found == plain


# ---- what a cache keeps, between calls ----


def _world(make: typing.Callable[[typing.Any, int], typing.Any], size: int | None) -> types.SimpleNamespace:
    """A cache around `make`, which looks at the world's factor, and a program that asks it."""
    world = types.SimpleNamespace(factor=2, calls=0)

    def function(n, *, more=0):
        return make(world.factor, n + more)

    world.kept = functools.lru_cache(size)(function)

    def program(x):
        world.calls += 1
        kept = world.kept(3, more=1)
        return x + world.kept(2, more=0).total, kept.total, kept is world.kept(3, more=1), kept.held

    world.program = program
    return world


class _Kept:
    def __init__(self, factor: int, n: int) -> None:
        self.total = factor * n
        self.held = [factor, {"n": [n, (n, 0.5)]}]


def _nothing(world):
    pass


def _other_factor(world):
    world.factor += 1


def _cleared(world):
    world.kept.cache_clear()


def _asked(world):
    world.kept(2, more=0)
    world.kept(3, more=1)


def _changed(world):
    world.kept(3, more=1).held[1]["n"].append(world.factor)
    world.kept(2, more=0).total += 1


def _full(world):
    for n in range(20, 30):
        world.kept(n)


_CHANGES = (_nothing, _other_factor, _cleared, _asked, _changed, _full)


@pytest.mark.parametrize("size", [None, 8, 1, 0])
@pytest.mark.parametrize("first", _CHANGES)
def test_an_object_that_a_cache_keeps_is_what_plain_python_keeps(size, first) -> None:
    plain, captured = _world(_Kept, size), _world(_Kept, size)
    compiled = framelift.compile(captured.program, backend="eager")
    for change in [one for second in _CHANGES for one in (first, second, _other_factor, second)]:
        for world in (plain, captured):
            change(world)
        want, got = plain.program(torch.zeros(2)), compiled(torch.zeros(2))
        assert torch.equal(want[0], got[0]) and want[1:] == got[1:]
        assert plain.kept(3, more=1).total == captured.kept(3, more=1).total
        if size != 0 and size != 1:
            assert got[3] is captured.kept(3, more=1).held


def test_objects_of_a_cache_that_had_nothing_are_captured_whole() -> None:
    @functools.lru_cache
    def kept(name, n):
        return {name: [n]}

    @functools.lru_cache
    def second(pair, n):
        return (pair, n), [n]

    class Pair:
        pass

    @functools.lru_cache
    def pair(n):
        made = Pair()
        made.n = n
        return made

    @functools.lru_cache
    def number(pair, n):
        return [pair.n * n]

    def f(x):
        table = kept("a", 3)
        return x + table["a"][0] + number(pair(4), 2)[0]

    framelift.testing.assert_captured(f, torch.ones(2), calls=3)
    framelift.reset()
    assert [one.cache_info().currsize for one in (kept, number, pair)] == [1, 1, 1]
    assert kept("a", 3) is kept("a", 3) and number(pair(4), 2) is number(pair(4), 2)

    @functools.lru_cache
    def more(pair, n):
        return pair.held, n

    @functools.lru_cache
    def holding(n):
        made = Pair()
        made.held = [n]
        return made

    def has_a_part_of_another(x, n):
        return x * more(holding(n), x.shape[0])[0][0] + more(holding(n), x.shape[0])[1]

    compiled = framelift.compile(has_a_part_of_another, backend="eager", fullgraph=True)
    for n in (3, 3):
        assert torch.equal(compiled(torch.ones(2), n), has_a_part_of_another(torch.ones(2), n))
    assert len(framelift.stats()["recompiles"]) == 0 and more(holding(3), 2)[0] is holding(3).held
    more.cache_clear()
    for n in (3, 3):
        assert torch.equal(compiled(torch.ones(2), n), has_a_part_of_another(torch.ones(2), n))
    assert more(holding(3), 2)[0] is holding(3).held
    holding(3).held[0] = 7
    assert torch.equal(compiled(torch.ones(2), 3), has_a_part_of_another(torch.ones(2), 3))

    def holds_another(x):
        return x + second(pair(5), 2)[1][0], second(pair(5), 2)

    compiled = framelift.compile(holds_another, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2))[1] is second(pair(5), 2) and second(pair(5), 2)[0][0] is pair(5)


def test_keys_whose_comparison_is_code_of_the_program() -> None:
    asked = []

    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            asked.append(self.n)
            return self.n == other.n

        def __hash__(self):
            return 1

    @functools.lru_cache
    def kept(key):
        return [key.n]

    def f(x, key):
        return x + kept(key)[0], kept(key)

    compiled = framelift.compile(f, backend="eager")
    for n in (1, 2, 1, 2):
        result, held = compiled(torch.zeros(1), Key(n))
        assert result == n and held is kept(Key(n))


def test_objects_and_functions_as_keys() -> None:
    class Layer:
        def __init__(self, n):
            self.n = n

        @functools.lru_cache  # noqa: B019
        def table(self, of):
            return [of(self.n)]

    def f(x, layer, of):
        return x + layer.table(of)[0], layer.table(of)

    compiled = framelift.compile(f, backend="eager")
    one, two = Layer(1), Layer(2)
    for layer, of in ((one, abs), (two, abs), (one, float), (one, abs), (two, abs)):
        result, held = compiled(torch.zeros(1), layer, of)
        assert result == layer.n and held is layer.table(of) and held == [of(layer.n)]


class _State:
    value = 0


def _writes_after(cache):
    kept = cache(lambda number: number + _State.value)

    def program(x, number):
        _State.value = 1
        y = x + kept(number)
        _State.value = 2
        return y

    return program


def _writes_between(cache):
    kept = cache(lambda number: number + len(_read))

    def program(x, number):
        y = x + kept(number)
        _read.append(0)
        y = y * kept(number + 1)
        _read.pop()
        return y

    return program


def _writes_to_its_object(cache):
    class Holder:
        weight = 1

        @cache
        def scaled(self, number):
            return self.weight * number

    holder = Holder()

    def program(x, number):
        y = x + holder.scaled(number)
        holder.weight += 1
        return y

    return program


def _makes_lists(cache):
    kept = cache(lambda number: [number + _State.value])

    def program(x, number):
        y = x + kept(number)[0]
        _State.value += 1
        return y

    return program


@pytest.mark.parametrize("make", [_writes_after, _writes_between, _writes_to_its_object, _makes_lists])
def test_a_frame_that_changes_what_a_cached_function_reads(make) -> None:
    def run(compile_):
        _State.value = 0
        program = compile_(make(functools.lru_cache))
        return [repr(program(torch.ones(2), number)) for number in (1, 1, 2, 1, 2)]

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


@pytest.mark.parametrize("maxsize", [1, 2, None])
def test_a_place_in_a_cache_that_is_used_again(maxsize) -> None:
    """CPython takes a link of a full cache for the next answer: the same place may hold another answer for one key."""

    def run(compile_):
        kept = functools.lru_cache(maxsize)(lambda number: number + _read[0])
        function, found = compile_(lambda x: x + kept(1)), []
        _read[0] = 0
        kept(1)
        for step in range(12):
            found.append(function(torch.zeros(())).item())
            if step % 3 == 2:
                _read[0] = step
                kept(2), kept(3), kept(1)  # it goes, and comes again
        return found

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_a_tensor_that_is_made_in_another_grad_mode_than_the_frames() -> None:
    def run(compile_):
        weight = torch.ones(2, requires_grad=True)
        kept = functools.lru_cache(lambda number: weight * number)

        def program(x):
            with torch.no_grad():
                y = kept(2)
            return x + y

        results = [compile_(program)(torch.ones(2)).requires_grad for _ in range(2)]
        return [*results, kept(2).requires_grad]

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_equal_keys_of_different_types() -> None:
    def run(compile_, typed):
        kept = functools.lru_cache(typed=typed)(lambda number: (number, _read[0]))
        function = compile_(lambda x: (x + 1, kept(1), kept(1.0), kept(True)))
        _read[0], found = 0, []
        kept(1), kept(1.0), kept(True)
        for asked in ((1,), (1.0,), (True,), ()):
            found.append(function(torch.ones(()))[1:])
            kept.cache_clear()
            for number in (1, 1.0, True):  # all but one as before
                _read[0] = 5 if (type(number), number) in [(type(one), one) for one in asked] else 0
                kept(number)
        return found

    for typed in (False, True):
        assert run(lambda f: framelift.compile(f, backend="eager"), typed) == run(lambda f: f, typed)


def test_a_cache_without_its_parameters() -> None:
    kept = functools.lru_cache(lambda number: number + 1)
    del kept.cache_parameters
    check(lambda x: x + kept(2), torch.ones(2), graphs=None, breaks=None, fullgraph=False)


_OFFSETS = {"by": 1}


@functools.lru_cache(64)
def _plan(shape, name):
    """As libraries plan what to do by the shape alone: lists of numbers, kept for each shape."""
    first, *others = shape
    return [first * 2, name], {"others": others}, sum(others) + _OFFSETS["by"]


def _planned(x):
    sizes, table, total = _plan(x.shape, "a")
    return x.repeat(sizes[0] // x.shape[0], *[1 for _ in table["others"]]) + total


def _graphs(function, **options):
    graphs: list[Any] = []

    def backend(module, example_inputs):
        graphs.append(module)
        return module.forward

    return framelift.compile(function, backend=backend, **options), graphs


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change_are_asked_for_in_one_graph(dynamic) -> None:
    _plan.cache_clear()
    _plan(torch.Size([4, 3]), "a")
    compiled, graphs = _graphs(_planned, dynamic=dynamic, fullgraph=True)
    for shape in ((2, 3), (4, 5), (4, 3), (6, 2), (7, 9)):
        x = torch.rand(shape)
        assert torch.equal(compiled(x), _planned(x))
    assert len(graphs) == (1 if dynamic else 2)


def test_what_a_cache_holds_for_one_of_the_sizes_may_be_another() -> None:
    """Somebody changed it, or what the function read when it was asked was another."""
    _plan.cache_clear()
    compiled, graphs = _graphs(_planned, dynamic=True)
    assert torch.equal(compiled(torch.ones(2, 3)), _planned(torch.ones(2, 3)))
    changed = torch.ones(5, 4)
    _plan(changed.shape, "a")[0][0] = 15
    assert torch.equal(compiled(changed), _planned(changed)) and len(compiled(changed)) == 15
    old = torch.ones(6, 4)
    _plan(old.shape, "a")
    _OFFSETS["by"] = 7
    try:
        for x in (old, torch.ones(3, 9), old, changed):
            assert torch.equal(compiled(x), _planned(x))
    finally:
        _OFFSETS["by"] = 1


def test_the_results_for_sizes_that_change_are_the_cache_s_own() -> None:
    _plan.cache_clear()

    def leaves(x):
        return x + 1, _plan(x.shape, "b")[0]

    def changes(x):
        found = _plan(x.shape, "c")[0]
        found.append(len(found))
        return x + len(found)

    for function in (leaves, changes):
        compiled, _ = _graphs(function, dynamic=True)
        for shape in ((2, 3), (4, 5), (2, 3), (4, 5)):
            _plan.cache_clear()
            plain = [function(torch.ones(shape)), function(torch.ones(shape))]
            _plan.cache_clear()
            made = [compiled(torch.ones(shape)), function(torch.ones(shape))]
            if function is leaves:
                assert made[0][1] is made[1][1] and made[0][1] == plain[0][1]
            else:
                assert all(map(torch.equal, made, plain))


@pytest.mark.parametrize("place", ["closure", "argument", "default"])
@pytest.mark.parametrize("changes", ["inside", "outside"])
def test_sizes_ask_a_cache_whose_function_reads_what_changes(place: str, changes: str) -> None:
    def make() -> tuple[Callable[..., Any], Callable[..., Any], list[int]]:
        factor = [2]

        def default(held: list[int] = factor) -> int:
            return held[0]

        @functools.lru_cache(256)
        def plan(n: int) -> int:
            return n * (default() if place == "default" else factor[0])

        def fn(x: torch.Tensor, held: list[int]) -> torch.Tensor:
            before = held[0] if place == "argument" else 0
            y = x.sum() + plan(x.shape[0]) + before
            if changes == "inside":
                held[0] += 1
            return y

        return fn, plan, factor

    plain, plain_plan, plain_factor = make()
    fn, plan, factor = make()
    compiled = framelift.compile(fn, backend="eager", dynamic=True)
    for n in (2, 3, 4, 3, 2, 5, 4, 5):
        x = torch.arange(float(n))
        assert torch.equal(compiled(x, factor), plain(x, plain_factor))
        assert factor == plain_factor
        if changes == "outside":
            factor[0] += 1
            plain_factor[0] += 1
    assert [plan(n) for n in (2, 3, 4, 5)] == [plain_plan(n) for n in (2, 3, 4, 5)]


def test_numbers_in_what_a_cache_holds_are_constants() -> None:
    """The answers for several keys have no names of their own: numbers in them would seem to change."""
    kept = functools.lru_cache(lambda name: (len(name), [len(name), 3 * len(name)]))
    for name in ("ab", "abcd"):
        kept(name)

    def program(x, name):
        return x.new_zeros(tuple(kept(name)[1])) + kept(name)[0] + x.sum()

    compiled, graphs = _graphs(program, fullgraph=True)
    for name in ("ab", "abcd", "ab", "abcd"):
        assert torch.equal(compiled(torch.ones(2), name), program(torch.ones(2), name))
    compiled(torch.ones(3), "ab")
    text = "".join(str(module.code) for module in graphs)
    assert "12" in text and len(graphs) <= 4

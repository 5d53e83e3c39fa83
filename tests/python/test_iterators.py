"""External iterators, under way: captured code goes on where they stand, and they stand where it left them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from portrait import difference, portrait

X = torch.arange(3.0)
NUMBERS = [5, 6, 7, 8, 9]


def tripled(v: int) -> int:
    return v * 3


def is_odd(v: int) -> bool:
    return v % 2 == 1


MAKERS: dict[str, Callable[[], Any]] = {
    "enumerate": lambda: enumerate([1, 2, 3, 4, 5], 3),
    "enumerate of a shared list": lambda: enumerate(NUMBERS),
    "enumerate of text": lambda: enumerate("abcdef"),
    "zip": lambda: zip([1, 2, 3, 4], "abcd"),
    "zip of unequal": lambda: zip([1, 2], [1, 2, 3, 4]),
    "strict zip": lambda: zip([1, 2, 3], (4, 5, 6), strict=True),
    "map": lambda: map(tripled, [1, 2, 3, 4]),
    "map of two": lambda: map(lambda a, b: a + b, [1, 2, 3], range(10)),
    "range": lambda: iter(range(2, 20, 3)),
    "long range": lambda: iter(range(1 << 70, (1 << 70) + 9, 2)),
    "filter": lambda: filter(is_odd, [1, 2, 3, 4, 5, 7]),
    "filter None": lambda: filter(None, [0, 1, 0, 2, 3]),
    "reversed tuple": lambda: reversed((1, 2, 3, 4)),
    "reversed list": lambda: reversed([1, 2, 3, 4]),
    "islice": lambda: itertools.islice([1, 2, 3, 4, 5, 6, 7], 1, None, 2),
    "islice that stops": lambda: itertools.islice([1, 2, 3, 4, 5, 6, 7], 3),
    "islice of count": lambda: itertools.islice(itertools.count(4), 1, 9, 3),
    "chain": lambda: itertools.chain([1, 2], (3,), [], "ab"),
    "chain of a list": lambda: itertools.chain.from_iterable([[1, 2], [3, 4]]),
    "enumerate of chain": lambda: enumerate(itertools.chain([1, 2], [3, 4])),
    "zip of enumerate": lambda: zip(enumerate([7, 8, 9, 1]), itertools.count(2)),
    "map of zip": lambda: map(lambda pair: pair[0] + pair[1], zip([1, 2, 3], [4, 5, 6])),
}


#: the others are graph breaks
WHOLE = {"range", "long range", "reversed tuple", "reversed list"}


def one_step(x: Any, it: Any) -> Any:
    return x + 1, next(it, None), it, iter(it) is it


def the_rest(x: Any, it: Any) -> Any:
    return x + 1, list(it)


def a_loop(x: Any, it: Any) -> Any:
    seen = []
    for v in it:
        seen.append(v)
        if len(seen) == 3:
            break
    return x * len(seen), seen, next(it, "none")


@pytest.mark.parametrize("program", [one_step, the_rest, a_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_iterators_go_on_where_they_stand(name: str, program: Any) -> None:
    framelift.reset()
    captured = framelift.compile(program, backend="eager", fullgraph=name in WHOLE)
    for before in (0, 1, 9):
        plain, watched = MAKERS[name](), MAKERS[name]()
        for it in (plain, watched):
            for _ in range(before):
                next(it, None)
        for _ in range(2):
            want, got = program(X, plain), captured(X, watched)
            found = difference(portrait((want, plain)), portrait((got, watched)))
            assert found is None, found
        assert [next(plain, None) for _ in range(4)] == [next(watched, None) for _ in range(4)]


def test_a_list_that_changes_while_it_is_walked() -> None:
    def program(x: Any, numbers: Any, it: Any) -> Any:
        first = next(it)
        numbers.append(first[1])
        return x + 1, next(it), len(numbers)

    captured = framelift.compile(program, backend="eager")
    worlds = []
    for run in (program, captured):
        numbers = [1, 2]
        it = enumerate(numbers)
        worlds.append(([run(X, numbers, it)[1:] for _ in range(2)], list(it), numbers))
    assert worlds[0] == worlds[1]


def step_and_pop(x: Any, numbers: Any, it: Any) -> Any:
    found = next(it, None)
    numbers.pop()
    return x + 1, found


def step_and_clear(x: Any, numbers: Any, it: Any) -> Any:
    found = next(it, None)
    numbers.clear()
    return x + 1, found


def pop_and_ask(x: Any, numbers: Any, it: Any) -> Any:
    if numbers:
        numbers.pop()
    return x + 1, operator.length_hint(it)


def clear_and_fill(x: Any, numbers: Any, it: Any) -> Any:
    numbers[:] = [3]
    found = next(it, None)
    numbers.extend([1, 2, 3, 4, 5])
    return x + 1, found


@pytest.mark.parametrize(
    "make", [iter, reversed, lambda numbers: zip(numbers, numbers)], ids=["iter", "reversed", "zip"]
)
@pytest.mark.parametrize("kind", [list, bytearray])
@pytest.mark.parametrize(
    "program", [step_and_pop, step_and_clear, pop_and_ask, clear_and_fill], ids=lambda f: f.__name__
)
def test_a_sequence_that_became_shorter(program: Any, kind: Any, make: Any) -> None:
    """A place beyond the end is a place, which setting an iterator would cut.

    And one over a sequence that is empty has not ended.
    """
    for before in range(3):
        framelift.reset()
        worlds: list[Any] = []
        for run in (program, framelift.compile(program, backend="eager")):
            numbers = kind([1, 2, 3])
            it = make(numbers)
            for _ in range(before):
                next(it)
            worlds.append(
                [
                    (run(X, numbers, it)[1], list(numbers), portrait(it))
                    for _ in range(3)
                    if numbers or program is pop_and_ask
                ]
            )
        for want, got in zip(*worlds, strict=True):
            assert want[:2] == got[:2]
            found = difference(want[2], got[2])
            assert found is None, found


def test_an_iterator_made_inside_over_a_list_that_became_shorter() -> None:
    def program(x: Any, numbers: Any) -> Any:
        it, other = iter(numbers), [1, 2, 3]
        further = iter(other)
        next(it), next(it), next(further), next(further)
        del numbers[1:], other[1:]
        return x + 1, it, further

    worlds = []
    for run in (program, framelift.compile(program, backend="eager")):
        numbers = [1, 2, 3]
        _, it, further = run(X, numbers)
        worlds.append((it.__reduce__(), further.__reduce__()))
    assert worlds[0] == worlds[1]


def test_an_iterator_that_is_walked_from_two_sides() -> None:
    def program(x: Any, inner: Any, it: Any) -> Any:
        return x + 1, next(inner), next(it), next(inner)

    captured = framelift.compile(program, backend="eager")
    worlds = []
    for make in (enumerate, lambda inner: zip(inner, inner), lambda inner: map(tripled, inner)):
        for run in (program, captured):
            inner = iter(range(20))
            it = make(inner)
            worlds.append(([run(X, inner, it)[1:] for _ in range(3)], list(it)))
        assert worlds.pop() == worlds.pop()


def test_generators_and_unwatched_functions_break() -> None:
    def program(x: Any, it: Any) -> Any:
        return x + 1, next(it)

    for make in (
        lambda: enumerate(v for v in NUMBERS),
        lambda: map(abs, [-1, -2]),
        lambda: itertools.chain(v for v in NUMBERS),
    ):
        framelift.reset()
        captured = framelift.compile(program, backend="eager")
        it, plain = make(), make()
        assert [captured(X, it)[1] for _ in range(2)] == [program(X, plain)[1] for _ in range(2)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([]),
        lambda: iter([1]),
        lambda: reversed([1, 2]),
        lambda: iter("ab"),
        lambda: iter((1,)),
        lambda: iter(b"a"),
        lambda: iter(bytearray(b"a")),
        lambda: reversed((1, 2)),
        lambda: iter(range(2)),
    ],
)
def test_an_iterator_made_inside_that_has_ended(make) -> None:
    """It is one that has ended, of its own type."""

    def f(x):
        ended, fresh = make(), make()
        for _ in ended:
            pass
        return x + 1, ended, fresh

    compiled = framelift.compile(f, backend="eager")
    for _ in range(2):
        results = [side(torch.ones(2)) for side in (f, compiled)]
        for plain, captured in zip(results[0][1:], results[1][1:]):
            assert type(plain) is type(captured) and repr(plain.__reduce__()) == repr(captured.__reduce__())
            assert list(plain) == list(captured)


COUNTS = {"by two": (5, 2), "by its start": (2, 2), "by one": (3, 1)}


@pytest.mark.parametrize("name", COUNTS)
def test_a_counter_outside_counts_in_eager_mode(name: str) -> None:
    mine, plain = itertools.count(*COUNTS[name]), itertools.count(*COUNTS[name])

    def program(x, counter):
        return x + 1, next(counter), next(counter)

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    for _ in range(4):
        assert compiled(torch.ones(2), mine)[1:] == program(torch.ones(2), plain)[1:]
    assert next(mine) == next(plain)

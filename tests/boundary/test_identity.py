"""Identity of immutable values.

Which of them are one object is a fact only where the program asks, and then it is guarded.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import pytest
import torch

import framelift
from support import World, check

X = torch.ones(3)


def _big() -> int:
    return int("1000")  # another object at each call


BIG, OTHER = _big(), _big()
NAN, OTHER_NAN = float("nan"), float("nan")


def _same(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if a is b else x - 1


def _different(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if a is not b else x - 1


def _by_operator(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if operator.is_(a, b) else x - 1


def _by_address(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if id(a) == id(b) else x - 1


def _in_list(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if a in [b] else x - 1


def _in_dict(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if a in {b: 1} else x - 1


def _by_hash(x: Any, a: Any, b: Any) -> Any:
    return x + 1 if hash(a) == hash(b) else x - 1


def _turns(*pairs: tuple[Any, Any]) -> Any:
    def change(i: int, world: World) -> None:
        world.args[1:] = pairs[i % len(pairs)]

    return change


TEXTS = ("ab" * _big(), "ab" * _big())
PAIRS = ((BIG, "x"), (BIG, "x")[:1] + ("x",))


@pytest.mark.parametrize("ask", [_same, _different, _by_operator, _by_address])
@pytest.mark.parametrize(
    "one, two", [(BIG, OTHER), TEXTS, PAIRS, (float("1.5"), float("1.5"))], ids=["int", "str", "tuple", "float"]
)
def test_equal_values_are_one_object_or_two(ask: Any, one: Any, two: Any) -> None:
    assert one is not two
    alike, unlike = (one, one), (one, two)
    check(ask, X, *alike, mutate=_turns(alike, unlike), calls=4, graphs=2, captures=2)
    check(ask, X, *unlike, mutate=_turns(unlike, alike), calls=4, graphs=2, captures=2)


@pytest.mark.parametrize("ask", [_same, _by_address])
def test_tuples_of_one_tensor(ask: Any) -> None:
    one, two = (X,), (X,)
    check(ask, X, one, two, mutate=_turns((one, one), (one, two)), calls=4, graphs=None)


@pytest.mark.parametrize("ask", [_same, _in_list, _in_dict, _by_hash])
def test_which_nan(ask: Any) -> None:
    check(ask, X, NAN, NAN, mutate=_turns((NAN, NAN), (NAN, OTHER_NAN)), calls=4, graphs=2, captures=2)


def test_a_nan_in_a_tuple() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        return x + 1 if a[0] in b else x - 1

    check(
        f,
        X,
        (NAN, 1),
        (NAN, 2),
        mutate=_turns(((NAN, 1), (NAN, 2)), ((NAN, 1), (OTHER_NAN, 2))),
        calls=4,
        graphs=2,
        captures=2,
    )


def test_a_nan_nobody_asks_about() -> None:
    check(
        lambda x, a: x + 1, X, NAN, mutate=lambda i, world: world.args.__setitem__(1, float("nan")), calls=3, captures=1
    )


def test_a_constant_of_the_code() -> None:
    def f(x: Any, a: Any) -> Any:
        return x + 1 if a is limit() else x - 1

    def limit() -> int:
        return 123456

    own = next(c for c in limit.__code__.co_consts if c == 123456)
    check(
        f,
        X,
        own,
        mutate=lambda i, world: world.args.__setitem__(1, int("123456") if i % 2 else own),
        calls=3,
        graphs=None,
    )
    check(f, X, int("123456"), mutate=lambda i, world: world.args.__setitem__(1, own), calls=2, graphs=2, captures=2)


def test_keys_of_a_dictionary() -> None:
    def f(x: Any, table: Any, name: Any) -> Any:
        return x + 1 if any(key is name for key in table) else x - 1

    one, two = "".join(["na", "me"]), "".join(["na", "me"])
    check(f, X, {one: 1}, one, mutate=_turns(({one: 1}, one), ({two: 1}, one)), calls=4, graphs=2, captures=2)


def test_symbolic_numbers() -> None:
    pairs = [(3, 4), (5, 5), (_big(), _big()), (7, 8), (BIG, BIG)]
    check(_same, X, 3, 4, mutate=_turns(*pairs), calls=6, graphs=None)


def test_unequal_values_are_not_asked() -> None:
    check(
        _same,
        X,
        "one",
        "two!",
        mutate=lambda i, world: world.args.__setitem__(1, "".join(["o", "ne"])),
        calls=3,
        captures=1,
    )


def test_copies_do_not_tell_addresses() -> None:
    def f(x: Any, settings: Any) -> Any:
        own = copy.deepcopy(settings)
        own["list"].append(own["list"][0])
        return x * own["scale"] + own["sizes"][0], own

    def fresh() -> Any:
        inner = [float("1.5")]
        return {"scale": float("1.5"), "sizes": (_big(), 2), "list": inner, "again": inner}

    check(f, X, fresh(), mutate=lambda i, world: world.args.__setitem__(1, fresh()), calls=3, captures=1)


@pytest.mark.parametrize("fresh", [lambda: float("1.5"), lambda: "".join(["ab", "cd"])], ids=["float", "text"])
def test_what_is_its_own_copy_may_be_one_object_or_several(fresh: Any) -> None:
    """`copy.deepcopy` asks whether a value is its own copy: which other places have it does not matter."""

    def f(x: Any, settings: Any) -> Any:
        own = copy.deepcopy(settings)
        return x + len(own["names"]), own["first"] == own["second"], own["first"] in own["names"]

    def change(i: int, world: World) -> None:
        one = fresh()
        world.args[1] = {"first": one, "second": fresh() if i % 2 else one, "names": {fresh() if i % 3 else one: 1}}

    one = fresh()
    check(f, X, {"first": one, "second": one, "names": {one: 1}}, mutate=change, calls=6, captures=1)


def test_copies_that_are_other_objects_are_as_many_as_before() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        one, two = copy.deepcopy([a, b])
        return x + 1 if one is two else x - 1

    for fresh in (lambda: frozenset((1000, 2)), lambda: (1, frozenset((1000, 2))), lambda: torch.Size((1000, 2))):
        one, two = fresh(), fresh()
        check(f, X, one, one, mutate=_turns((one, one), (one, two), (two, two)), calls=4, graphs=None)
        check(f, X, one, two, mutate=_turns((one, two), (one, one), (two, one)), calls=4, graphs=None)


def test_another_copier(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        return copy.deepcopy([a, b, a]), x + 1

    run = framelift.compile(f, backend="eager", fullgraph=True)
    assert run(X, "ab", "cd")[0] == f(X, "ab", "cd")[0] == ["ab", "cd", "ab"]
    if atomic := vars(copy).get("_atomic_types"):  # CPython 3.14 looks here first
        monkeypatch.setattr(copy, "_atomic_types", atomic - {str})
    monkeypatch.setitem(vars(copy)["_deepcopy_dispatch"], str, lambda text, memo: text + text)
    assert run(X, "ab", "cd")[0] == f(X, "ab", "cd")[0] == ["abab", "cdcd", "abab"]
    assert len(run.entries) == 2


def test_equal_tuples_are_as_many_objects_as_they_were() -> None:
    def f(x, word):
        first, second, other = (x.shape[0], 2), (x.shape[0], 2), (x.shape[0], 2.0)
        return [first, second, other, first, [second], (first, word), (word, word)[1:], (word, word)[:1]], x + 1

    def pattern(found):
        tuples = [part for part in found[0] if type(part) is tuple] + found[0][4] + [found[0][5][0]]
        return [[a is b for a in tuples] for b in tuples], repr(found[0])

    run = framelift.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert pattern(run(torch.ones(3), "word")) == pattern(f(torch.ones(3), "word"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_that_drops_nothing_gives_its_input(backend: str) -> None:
    """Also where sizes change: torch's own operations on symbolic sizes make a copy there."""
    layer = torch.nn.Dropout(0.5).eval()

    def f(x, y):
        first = torch.nn.functional.dropout(x, 0.5, False)
        second, third, fourth = layer(x), torch.nn.functional.dropout(x, p=0.0), torch.dropout(x, 0.5, train=False)
        first.add_(1)
        return first is x, second is x, third is x, fourth is x, layer(y), x

    compiled = framelift.compile(f, backend=backend)
    for size in (3, 4, 5, 6):
        x, y = torch.zeros(size), torch.ones(size)
        *same, kept, changed = compiled(x, y)
        assert same == [True] * 4 and kept is y and changed is x and torch.equal(x, torch.ones(size))
    with pytest.raises(ValueError, match="has to be between 0 and 1"):
        framelift.compile(lambda x: torch.nn.functional.dropout(x, 1.5, False), backend=backend)(torch.ones(2))

"""Guard programs against their plain Python meaning: every kind and step, memos under random changes, lifetimes, state."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift import _core, config
from framelift.exc import InternalError
from framelift.guard.explain import WORDS, explain, explain_all
from framelift.guard.kinds import KINDS, Guard, dunders, immutable_leaf, same_leaf, tensor_facts
from framelift.guard.program import _PLAN, build_program
from framelift.guard.reference import check_reference
from framelift.origin import STEPS, Missing, Origin, arg, const, fetch

from guard_world import guarded_world, sites

X = arg(0, "x")


def program_of(*guards: Guard, inputs: Any = (), externals: Any = (), distinct: Any = (), state: Any = None) -> Any:
    return build_program(guards, list(inputs), list(externals), list(distinct), state)[0]


def one(kind: str, constant: Any, origin: Origin = X) -> Any:
    return program_of(Guard(origin, kind, constant))


# ---- the tables agree -----------------------------------------------------------------------------------------------

def test_every_step_exists_natively() -> None:
    assert _core.STEPS == set(STEPS) | {"arg", "const"}


def test_every_kind_exists_natively_and_in_words() -> None:
    assert _core.KINDS == set(KINDS) == set(WORDS) == set(_PLAN)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    ONE = 1


class Plain:
    shared = 1

    def method(self) -> int:
        return 1


class Slotted:
    __slots__ = ("a", "b")


class Sub(dict):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 99

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        return "overridden"


leaves = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.sampled_from([0.0, -0.0, 1.0, float("nan"), 1 + 0j, complex(0.0, -0.0)]),
              st.sampled_from(["", "a", "b", b"a", ..., torch.float32, torch.float64, torch.device("cpu"), torch.strided, Colour.RED,
                               Colour.BLUE, Level.ONE, range(3), range(0, 3), range(4)]),
              st.floats(), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.builds(slice, inner, inner, inner),
                            st.frozensets(st.sampled_from([1, 1.0, True, "a", None, 2]), max_size=3),
                            st.sets(st.sampled_from([1, 1.0, True, "a", None, 2]), max_size=3)), max_leaves=4)


@given(leaves, leaves)
@settings(max_examples=400)
def test_leaves_agree(a: Any, b: Any) -> None:
    assert _core.same_leaf(a, b) == same_leaf(a, b)
    assert _core.immutable_leaf(a) == immutable_leaf(a)
    assert (one("EQ", a).check((b,)) is None) == same_leaf(b, a)


def _zoo() -> list[Any]:
    def function(a: int = 1, *, k: int = 2) -> int:
        return a + k
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    slotted = Slotted()
    slotted.a = 1
    cell, empty = types.CellType(1), types.CellType()
    values = [None, True, 1, 1.0, "a", b"ab", (1, 2), [1, 2], {}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {1: 2}, {1.0: 2}, ordered,
              collections.OrderedDict(a=1), Sub(a=1), {1, 2}, frozenset({1}), collections.deque([1, 2]), bytearray(b"ab"), function,
              function.__code__, types.FunctionType(function.__code__, {}), Plain, Plain(), Plain().method, int, dict, Slotted,
              slotted, Colour.RED, cell, empty, len, types.ModuleType("m"), functools.partial(function, 1), torch.zeros(2),
              torch.zeros(2, requires_grad=True), torch.nn.Parameter(torch.zeros(2)), torch.zeros(2, 3).t(), torch.zeros(2, 3),
              torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.complex64).conj(), torch.zeros(2, device="meta"),
              torch.zeros(2).to_sparse(), torch.zeros(2, requires_grad=True) * 2, torch.Size([2]), object()]
    with torch.inference_mode():
        values.append(torch.zeros(2))
    with_grad = torch.zeros(2, requires_grad=True)
    with_grad.grad = torch.zeros(2)
    return [*values, with_grad]


def _constants(kind: str, zoo: list[Any]) -> list[Any]:
    if kind == "TENSOR":
        tensors = [v for v in zoo if isinstance(v, torch.Tensor)]
        return [tensor_facts(t, ask_grad=ask) for t in tensors for ask in (False, True)]
    return {"TYPE": [type(v) for v in zoo], "IS": zoo, "SAME": [], "CODE": [v for v in zoo if isinstance(v, types.CodeType)],
            "EQ": [v for v in zoo if immutable_leaf(v)] + [Colour.RED, {1, 2}], "LEN": [0, 1, 2, 99],
            "KEYS": [(), ("a",), ("a", "b"), ("b", "a"), (1,), (1.0,), (True,)], "ABSENT": ["a", "c", 1, 1.0, (1, 2)],
            "NO_LOOKUP": ["shared", "__len__", "nope"], "DUNDERS": [dunders(v) for v in zoo if isinstance(v, type)], "EMPTY": [None],
            "CHECK": [(lambda v: v, "true"), (lambda v: v.missing, "raises")]}[kind]


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "SAME"])
def test_kinds_agree(kind: str) -> None:
    zoo = _zoo()
    outcomes = set()
    for constant in _constants(kind, zoo):
        program = one(kind, constant)
        for value in zoo + zoo[:5]:
            expected = check_reference([Guard(X, kind, constant)], [], None, (value,)) is None
            for _ in range(3):
                assert (program.check((value,)) is None) == expected, (kind, constant, value)
            outcomes.add(expected)
    assert outcomes == {True, False}


def test_wildcards_in_tensor_facts() -> None:
    import dataclasses
    facts = dataclasses.replace(tensor_facts(torch.zeros(2, 3)), size=(None, 3), stride=None)
    program = one("TENSOR", facts)
    for value in (torch.zeros(2, 3), torch.zeros(7, 3), torch.zeros(3, 2).t(), torch.zeros(2, 4), torch.zeros(2)):
        assert (program.check((value,)) is None) == KINDS["TENSOR"](value, facts)


def _bases() -> list[Any]:
    x = 1

    def function(a: int = 1, *, k: int = 2) -> int:
        return a + k + x

    def unset() -> int:
        return y
    if not x:
        y = 1
    slotted = Slotted()
    slotted.a = 7
    return [*_zoo(), function, unset, slotted, {"k": 5, 0: 6}, [5, 6], (5, 6), collections.defaultdict(list, k=1), function.__closure__[0],
            unset.__closure__[0], types.MappingProxyType({"k": 1}), functools.partial(function, 1, k=3), torch.nn, Plain.method]


KEYS = {"item": ["k", 0, 1, -1, 5, "a"], "slot": ["a", "b", "shared", "nope"], "lookup": ["shared", "nope", "method", "a"],
        "default": [0, 1], "kwdefault": ["k", "nope"], "cell": [0, 1], "attr": ["shared", "maxlen", "default_factory", "nope", "func", "__name__"]}


@pytest.mark.parametrize("step", sorted(STEPS))
def test_steps_agree(step: str) -> None:
    outcomes = set()
    for key in KEYS.get(step, [None]):
        origin = X.to(step, key)
        program = program_of(inputs=[origin])
        for value in _bases():
            try:
                expected = fetch(origin, (value,))
            except (Missing, Exception):
                expected = Missing
            for _ in range(3):
                try:
                    found = program.values((value,))[0][0]
                except ValueError:
                    found = Missing
                same = found is expected or (expected is not Missing and (type(found), str(found)) == (type(expected), str(expected)))
                assert same, (step, key, value, found, expected)
            outcomes.add(expected is Missing)
    assert outcomes == ({False} if step == "type" else {True, False})


# ---- memos under random changes -------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(6))
def test_memos_are_sound_under_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    world, arguments, guards, inputs = guarded_world(seed)
    program = program_of(*guards.guards, inputs=inputs, distinct=guards.distinct)
    outcomes: collections.Counter[bool] = collections.Counter()

    def compare(what: str) -> None:
        expected = check_reference(guards.guards, guards.distinct, None, arguments)
        for _ in range(2):
            failure = program.check(arguments)
            assert (failure is None) == (expected is None), f"{what}: native {failure}, Python {expected}"
        if expected is None:
            handed = program.values(arguments)[0]
            assert all(a is fetch(o, arguments) for a, o in zip(handed, inputs, strict=True))
        outcomes[expected is None] += 1

    compare("at first")
    places = sites(world)
    for step in range(350):
        undos = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            value, change = rng.choice(places)
            undos.append(change(rng, world, value))
        compare(f"step {step}, {change.__name__}")
        for undo in reversed(undos):
            undo()
        if rng.random() < 0.8:
            compare(f"after step {step}, {change.__name__}")
    assert outcomes[True] > 200 and outcomes[False] > 100
    for _ in range(3):
        assert program.check(arguments) is None
    assert program.stats()["restarts"] <= 3


def test_repeated_checks_visit_nothing() -> None:
    _, arguments, guards, inputs = guarded_world(1)
    few = [g for g in guards.guards if "ordered" not in str(g.origin) and "queue" not in str(g.origin)]
    program = program_of(*few, inputs=[o for o in inputs if True])
    for _ in range(3):
        assert program.check(arguments) is None
    before = program.stats()
    for _ in range(10):
        assert program.check(arguments) is None
    after = program.stats()
    assert after["visits"] == before["visits"] and after["unchanged"] == before["unchanged"] + 10

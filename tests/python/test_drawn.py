"""Numbers drawn from Python's and numpy's random generators outside.

Every call draws anew, as plain Python does, and no state is guarded.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from framelift import config

X = torch.ones(2)
OWN = random.Random(3)
STATE = np.random.RandomState(4)
MODERN = np.random.default_rng(4)
SHARED = np.random.RandomState(STATE._bit_generator)


class Loaded(random.Random):
    """A generator with a method of its own over the C one."""

    def random(self) -> float:
        return super().random() / 2


def compare(program: Any, *args: Any, calls: int = 10, backend: Any = "eager", **options: Any) -> Any:
    """The same numbers and the same states afterwards, over several calls; gives the compiled callable."""
    framelift.reset()
    compiled = framelift.compile(program, backend=backend, **options)
    rows = []
    for function in (program, compiled):
        random.seed(5)
        OWN.seed(6)
        np.random.seed(7)
        STATE.seed(8)
        SHARED.set_state(STATE.get_state())
        MODERN.bit_generator.state = np.random.PCG64(9).state
        rows.append(
            [
                [
                    str(function(*args)),
                    hash(random.getstate()),
                    hash(OWN.getstate()),
                    np.random.get_state()[1:],
                    STATE.get_state()[1:],
                    MODERN.bit_generator.state,
                ]
                for _ in range(calls)
            ]
        )
        rows[-1] = str(rows[-1])
    assert rows[0] == rows[1]
    return compiled


def branch(x):
    return x + 1 if random.random() < 0.5 else x - 1


def unused(x):
    random.random()
    OWN.getrandbits(3)
    return x + 1


def seeded(x):
    first = x + random.random()
    random.seed(3)
    return first + random.random(), random.random()


def both(x):
    return [(x * random.uniform(1, 2), OWN.randint(0, 9), random.randrange(0, 20, 5)) for _ in range(3)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + random.random(),
        lambda x: x * random.uniform(2, 4) + random.randint(0, 1),
        both,
        unused,
        seeded,
        lambda x: x[random.randint(0, 1)],
        lambda x: torch.zeros(random.randint(2, 5)) + x[0],
        lambda x: (random.random(), random.getrandbits(8), x),
    ],
)
def test_one_capture_serves_every_state(program: Any, backend: str) -> None:
    assert len(compare(program, X, fullgraph=True, backend=backend).entries) == 1


def test_what_decides_has_a_capture_for_each_side() -> None:
    assert len(compare(branch, X, fullgraph=True).entries) == 2
    assert len(compare(lambda x: x + random.choice([1, 2, 3]), X, fullgraph=True, calls=20).entries) == 3


def test_where_much_is_decided_plain_python_draws() -> None:
    def program(x):
        order = [1, 2, 3, 4, 5]
        random.shuffle(order)
        return x + order[0], random.sample(order, 2)

    compare(program, X, calls=12)
    assert any("drawn" in reason for reason in framelift.stats()["breaks"])


def test_generators_that_are_arguments_or_of_other_classes() -> None:
    def program(x, generator):
        return x + generator.random(), generator.randint(0, 9)

    for kind in (random.Random, Loaded):
        plain, watched = kind(7), kind(7)
        compiled = framelift.compile(program, backend="eager", fullgraph=kind is random.Random)
        for _ in range(4):
            assert str(program(X, plain)) == str(compiled(X, watched)) and plain.getstate() == watched.getstate()
    own = random.Random(1)
    own.getrandbits = lambda k: 1
    compiled = framelift.compile(program, backend="eager")
    assert [compiled(X, own)[1] for _ in range(2)] == [1, 1]


def test_breaks_come_between_draws() -> None:
    def program(x):
        first, y = random.random(), x + random.uniform(10, 20)
        framelift.graph_break()
        second = random.randint(2, 18)
        framelift.graph_break()
        return y + first, second, random.random()

    compare(program, X)


def test_a_graph_that_fails_has_drawn_nothing() -> None:
    def program(x, i):
        y = x * random.random()
        try:
            return y[i], random.random()
        except IndexError:
            return y, random.random()

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    rows = []
    for function in (program, compiled):
        random.seed(5)
        rows.append([str(function(X, torch.tensor([i]))) for i in (0, 1, 5, 1)] + [random.getstate()])
    assert rows[0] == rows[1]


def test_an_exception_that_leaves_the_frame() -> None:
    def program(x):
        drawn = random.random()
        if drawn < 0.5:
            raise ValueError(drawn)
        return x + drawn

    framelift.reset()
    compiled = framelift.compile(program, backend="eager")
    rows = []
    for function in (program, compiled):
        random.seed(5)
        rows.append([])
        for _ in range(8):
            try:
                rows[-1].append(str(function(X)))
            except ValueError as error:
                rows[-1].append(repr(error))
        rows[-1].append(random.getstate())
    assert rows[0] == rows[1]


def test_a_backend_that_draws() -> None:
    def backend(graph: Any, _: Any) -> Any:
        random.random()
        return graph

    compare(branch, X, fullgraph=True, backend=backend)


def test_without_symbols_the_state_is_a_fact() -> None:
    def program(x):
        return torch.vmap(lambda y: y * random.random())(x)

    with config.patch(recompile_limit=20):
        compare(program, X, calls=3)


# ---- numpy ----------------------------------------------------------------------------------------------------------


def changed_later(x):
    values = [1, 2, 3]
    chosen = np.random.choice(values)
    values[0] = 9
    return x + chosen, values


def written_to(x):
    made = np.random.rand(2)
    made[0] = 5
    x.mul_(1.0)
    return made, torch.from_numpy(made) + x


def made_inside(x):
    old, new = np.random.RandomState(3), np.random.default_rng(seed=4)
    return x * old.rand() + torch.from_numpy(old.randn(2)), new.integers(0, 9), new.normal(size=(2, 2)), old.randint(5)


def seeding(x):
    np.random.seed(3)
    return x + np.random.rand()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + torch.from_numpy(np.random.randn(2)),
        lambda x: x * np.random.rand() + np.random.randint(0, 9),
        changed_later,
        written_to,
        lambda x: np.random.uniform(low=-1, high=1, size=(2, 2)),
        lambda x: x[torch.from_numpy(np.random.permutation(2))],
        lambda x: (x + STATE.rand(), STATE.randn()),
        lambda x: (x + random.random() + np.random.random(), np.random.normal(loc=3.0)),
        lambda x: (np.random.randn(3), np.random.rand(), x + 1)[2],
        lambda x: torch.tensor([np.random.uniform(size=(2, 1))] * 2, dtype=torch.float32) + x,
    ],
)
def test_numpys_random_functions(program: Any, backend: str) -> None:
    assert len(compare(program, X, fullgraph=True, backend=backend).entries) == 1


def test_numpys_numbers_that_decide() -> None:
    assert len(compare(lambda x: x + 1 if np.random.rand() < 0.5 else x - 1, X, fullgraph=True).entries) == 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * MODERN.random() + torch.from_numpy(MODERN.normal(size=2)) + MODERN.integers(0, 9),
        lambda x: (x + STATE.randn() + SHARED.randn(), STATE.randn()),
        lambda x: x + 1 if MODERN.random() < 0.5 and STATE.normal() + SHARED.normal() < 9 else x - 1,
        made_inside,
        seeding,
        lambda x: x + len(np.random.choice(["a", "bc"])),
        lambda x: x + np.random.RandomState(np.random.PCG64(3)).rand(),
        lambda x: torch.vmap(lambda y: y * np.random.rand())(x),
        lambda x: x + np.random.get_state()[2],
    ],
)
def test_numpys_generators_that_plain_python_uses(program: Any) -> None:
    """Each draw is a graph break."""
    compare(program, X)


def test_many_numbers_are_facts_of_the_state() -> None:
    """Thousands of symbols would take longer to follow than the program is worth."""

    def program(x: Any) -> Any:
        total = 0
        for _ in range(2000):
            total = (total << 1 ^ random.getrandbits(8)) & 0xFFFF
        return x + total

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    for seed in (1, 2):
        random.seed(seed)
        want, after = program(torch.ones(1)), random.random()
        random.seed(seed)
        assert torch.equal(compiled(torch.ones(1)), want) and random.random() == after


@pytest.mark.parametrize("program", [lambda x: x + random.random(), lambda x: x + np.random.rand(), branch])
def test_verified_calls_draw_once(program: Any) -> None:
    compare(program, X, verify=True)

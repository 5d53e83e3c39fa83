"""Truth values of tensors that Python hands on without asking for them: one graph, one capture for both answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from support import World, check


def _change(number: int, world: World) -> None:
    world.args[0].copy_(torch.tensor([float(number), 3.0, -1.0]))


def _kept(x: torch.Tensor) -> Any:
    state = {"any": bool(x.sum() > 4)}
    state["first"] = bool(x[0])
    return x * 2, state, [state["any"]]


HANDED_ON: dict[str, Callable[[torch.Tensor], Any]] = {
    "bool of a comparison": lambda x: (x + 1, bool((x > 0).all())),
    "bool of a number": lambda x: (x + 1, bool(x[0])),
    "bool of a bool": lambda x: (x + 1, bool((x > 1).any().item())),
    "kept in containers": _kept,
    "in a tensor": lambda x: (x + 1, 3 in x, 2.0 in x),
    "a tensor in a tensor": lambda x: (x + 1, x[0] in x[1:]),
    "in a list": lambda x: (x + 1, 2 in [x[0], x[1]], 7 in [1, x[0], 7]),
    "in a tuple with other things": lambda x: (x + 1, 2 in (None, "a", x[0])),
    "a tensor in a list of numbers": lambda x: (x + 1, x[0] in [0, 2, 5]),
    "the same tensor": lambda x: (x + 1, x in [x[0], x]),
    "joined": lambda x: (x + 1, bool(x[0] > 1) | (3 in x), bool(x[0] > 1) & (1 in x)),
    "in nothing": lambda x: (x + 1, x in [], x in ()),
    "in a set": lambda x: (x + 1, 1 in {x}, x in {x}),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_handed_on(name: str) -> None:
    if name == "the same tensor":
        check(HANDED_ON[name], torch.tensor([5.0]), calls=2)
    else:
        check(HANDED_ON[name], torch.tensor([5.0, 3.0, -1.0]), calls=6, mutate=_change, captures=1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1 if bool(x.sum() > 4) else x - 1,
        lambda x: x + 1 if 3 in [x[0], x[1] - 1] else x - 1,
        lambda x: x + int(2 in x),
        lambda x: x if 2 not in x else x + 1,
    ],
)
def test_asked_for(fn: Callable[[torch.Tensor], Any]) -> None:
    check(fn, torch.tensor([5.0, 3.0, -1.0]), calls=4, mutate=_change, graphs=None, breaks=None)


class Odd:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, torch.Tensor)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x + 1, x in [x + 1, x]),  # which of several elements?
        lambda x: (x + 1, bool(x)),
        lambda x: (x + 1, "a" in x),
    ],
)
def test_no_truth(fn: Callable[[torch.Tensor], Any]) -> None:
    check(fn, torch.tensor([5.0, 3.0]), raises=RuntimeError, graphs=None, breaks=None)


def test_what_python_classes_compare() -> None:
    check(
        lambda x, odd: (x + 1, odd in [x[0]], x[0] in [odd]), torch.tensor([5.0, 3.0]), Odd(), breaks=None, graphs=None
    )


def test_subclasses_and_other_captures_see_the_same() -> None:
    def fn(x: torch.Tensor) -> Any:
        return x + 1, bool(x.sum() > 4), 3 in [x[0]]

    x = torch.tensor([3.0, 3.0])
    for backend in ("aot_eager", "eager"):
        with framelift.config.patch(capture_scalar_outputs=True):
            found = framelift.compile(fn, backend=backend)(x)
        assert torch.equal(found[0], x + 1) and found[1:] == (True, True)
    with framelift.config.patch(capture_scalar_outputs=True):
        mapped = framelift.compile(lambda x: torch.vmap(lambda row: row * 2)(x) + (2 in [x[0][0]]), backend="eager")
        assert torch.equal(mapped(torch.full((2, 2), 2.0)), torch.full((2, 2), 5.0))


def test_an_item_behind_an_equal_one_is_not_compared() -> None:
    """Two and three elements cannot be compared; plain Python does not try where an item before is equal."""

    def f(x, y, z):
        return x * 2, y in [x, z]

    x, y, z = torch.ones(1), torch.ones(1), torch.ones(3)
    for other in (z, torch.ones(2, 1)):
        want = f(x, y, other)
        got = framelift.compile(f, backend="eager")(x, y, other)
        assert torch.equal(got[0], want[0]) and got[1] is want[1] is True
    with framelift.config.patch(capture_scalar_outputs=True):
        assert framelift.compile(f, backend="eager")(x, y, z)[1] is True

"""`while_loop` that carries ints, and the variant that keeps the results of all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.exc import UncapturedHigherOrderOpError

while_loop = torch._higher_order_ops.while_loop
all_steps = torch.ops.higher_order.while_loop_stack_output
BIAS = torch.linspace(0, 1, 3)


def _counts(x: torch.Tensor, n: int) -> Any:
    i, y = while_loop(lambda i, a: 2 * i < a.shape[0], lambda i, a: (i + 1, a * i + BIAS), (n, x))
    return y + i, i, -i + 1


def _counts_plainly(x: torch.Tensor, n: int) -> Any:
    i = n
    while 2 * i < x.shape[0]:
        i, x = i + 1, x * i + BIAS
    return x + i, i, -i + 1


def _nested(x: torch.Tensor, n: int) -> Any:
    def step(i: int, state: dict[str, Any]) -> Any:
        return i - 1, {"sum": state["sum"] + state["seen"], "seen": state["seen"] + 2}

    i, state = while_loop(lambda i, state: i > 0, step, (n + 3, {"sum": x, "seen": n}))
    return i, state["sum"], state["seen"]


def _nested_plainly(x: torch.Tensor, n: int) -> Any:
    i, seen = n + 3, n
    while i > 0:
        i, x, seen = i - 1, x + seen, seen + 2
    return i, x, seen


def _read(x: torch.Tensor, n: int) -> Any:
    """The first loop leaves what the second one begins with."""
    i, y = while_loop(lambda i, a: a.sum() < 50, lambda i, a: (i + 1, a + 1), (n, x))
    j, z = while_loop(lambda j, a: j > i - 2, lambda j, a: (j - 1, a * 2), (i, y))
    return j, z


def _read_plainly(x: torch.Tensor, n: int) -> Any:
    i = n
    while x.sum() < 50:
        i, x = i + 1, x + 1
    j = i
    while j > i - 2:
        j, x = j - 1, x * 2
    return j, x


def _around(x: torch.Tensor, n: int) -> Any:
    """A branch and a loop take a number from around them that only the graph knows."""
    count = (x > n).sum().item()
    y = torch.cond(x.sum() > n, lambda a: a + count, lambda a: a - 1, (x,))
    return while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a * 2 - count), (0, y))


def _around_plainly(x: torch.Tensor, n: int) -> Any:
    count: Any = (x > n).sum().item()
    x, i = x + count if x.sum() > n else x - 1, 0
    while i < count:
        i, x = i + 1, x * 2 - count
    return i, x


def _stacked(x: torch.Tensor, n: int) -> Any:
    left, rows = all_steps(
        lambda i, a: i > 0, lambda i, a: (i - 1, a.cos() + BIAS), (torch.tensor(n), x.detach() + 0), ()
    )
    return left, rows * 2, rows.sum(0), rows.shape[0] + 1


def _stacked_plainly(x: torch.Tensor, n: int) -> Any:
    i, a, rows = n, x + 0, []
    while i > 0:
        i, a = i - 1, a.cos() + BIAS
        rows.append((torch.tensor(i), a))
    left, made = (torch.stack(part) for part in zip(*(rows or [(torch.tensor(n), x)])))
    return left, made * 2, made.sum(0), len(made) + 1


PROGRAMS = {
    "counts": (_counts, _counts_plainly),
    "nested": (_nested, _nested_plainly),
    "two loops": (_read, _read_plainly),
    "numbers of the graph": (_around, _around_plainly),
    "all steps": (_stacked, _stacked_plainly),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_plain_python(name: str, backend: str) -> None:
    captured, plain = PROGRAMS[name]
    framelift.reset()
    compiled = framelift.compile(captured, backend=backend, fullgraph=True)
    for n in (1, 2, 0, 5, 7, 9):
        x = torch.linspace(-2, 3, 18).reshape(6, 3)
        torch.testing.assert_close(compiled(x, n), plain(x, n))
    assert framelift.stats()["captures"] <= 4  # 0 and 1 are constants, all other numbers share a capture


def _checks(i: int, a: torch.Tensor) -> tuple[int, torch.Tensor]:
    torch._check(i >= 1)
    return i + 1, a + 1 if i >= 1 else a - 1


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a float": lambda x: while_loop(lambda i, a: a.sum() < 3, lambda i, a: (i + 1, a + 1), (0.5, x)),
    "an int that becomes a tensor": lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (a + 1, a + 1), (0, x)),
    "a branch on the int": lambda x: while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a + 1 if i > 1 else a - 1), (0, x)
    ),
    "a check of the int": lambda x: while_loop(lambda i, a: i < 3, _checks, (0, x)),
    "all steps of an int": lambda x: all_steps(lambda i, a: i < 3, lambda i, a: (i + 1, a + 1), (0, x), ()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_loop_cannot_carry(name: str) -> None:
    with pytest.raises(UncapturedHigherOrderOpError):
        framelift.compile(REFUSED[name], backend="eager")(torch.ones(3, 3))

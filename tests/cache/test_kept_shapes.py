"""Captures with symbolic sizes and numbers, kept on disk: their symbols, relations and graphs, for other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.cache.expressions import expression_data, expression_of
from framelift.cache.refusals import NotMine
from framelift.vocabulary.written_forms import NotKept


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path), strict=True):
        yield


def halves(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).reshape(-1, 2).sum(0)


def joined(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cat([x, y]).relu() + x.shape[0], x.shape


def branching(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n if n > 3 else x + n


def product(x: torch.Tensor) -> torch.Tensor:
    flat = x.view(x.shape[0], -1)
    return flat.t() @ flat


def in_two_parts(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    framelift.graph_break()
    return y * x.shape[0]


def equal_sizes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y if x.shape[0] == y.shape[0] else x.sum() + y.sum()


def strided(x: torch.Tensor) -> Any:
    return x.t().is_contiguous(), x.t().contiguous() + x.stride(0)


def eagerly(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 5:
        framelift.skip_frame()
    return x * x.shape[0]


def scaled(x: torch.Tensor, f: float) -> Any:
    return x * f + x.shape[0], f * 2


def calculated(x: torch.Tensor, f: float) -> torch.Tensor:
    return x * (f * 2 + 1) + math.sqrt(f) + f // 0.1 / x.shape[0]


def compared(x: torch.Tensor, f: float) -> torch.Tensor:
    return x * f if f > 0.5 else x.add(x, alpha=f)


def sized(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes)


CALLS: dict[Callable[..., Any], list[Any]] = {
    halves: [(sized(4),), (sized(6),), (sized(8),), (sized(1, 2),), (sized(0, 2),)],
    joined: [(sized(4), sized(4)), (sized(6), sized(6)), (sized(6), sized(5)), (sized(1), sized(7))],
    branching: [(sized(2), 5), (sized(2), 6), (sized(2), 7), (sized(2), 3), (sized(2), True)],
    product: [(sized(4, 2, 3),), (sized(6, 2, 3),), (sized(7, 5, 3),)],
    in_two_parts: [(sized(4),), (sized(6),), (sized(7),)],
    equal_sizes: [(sized(3), sized(3)), (sized(4), sized(4)), (sized(5), sized(6)), (sized(6), sized(5))],
    strided: [(sized(3, 4),), (sized(5, 4),), (sized(5, 6),), (sized(6, 5).t(),)],
    eagerly: [(sized(3),), (sized(4),), (sized(7),), (sized(8),)],
    scaled: [(sized(3), 0.5), (sized(3), 0.25), (sized(3), 0.75), (sized(4), 0.5), (sized(5), -0.0)],
    calculated: [(sized(3), 0.5), (sized(4), 0.25), (sized(4), 0.75), (sized(5), 3.5)],
    compared: [(sized(3), 0.75), (sized(3), 0.25), (sized(3), 0.875), (sized(3), 0.125)],
}


def run(function: Callable[..., Any], calls: list[Any], **options: Any) -> tuple[int, int]:
    """All calls in one process, compared with eager mode: how many captures were rehearsed, and loaded."""
    framelift.reset()
    compiled = framelift.compile(function, backend="eager", **options)
    for call in calls:
        assert repr(compiled(*call)) == repr(function(*call))
    stats = framelift.stats()
    return stats["captures"], stats["loaded"]


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("function", CALLS, ids=[one.__name__ for one in CALLS])
def test_symbolic_captures_are_loaded(function: Callable[..., Any], options: dict[str, Any]) -> None:
    calls = CALLS[function]
    assert run(function, calls, **options)[1] == 0 and not framelift.stats()["not_kept"]
    captures, loaded = run(function, calls, **options)
    assert captures == 0 and loaded >= 1
    assert run(function, calls[::-1], **options)[0] == 0


def test_other_sizes_than_those_of_the_first_process() -> None:
    run(equal_sizes, CALLS[equal_sizes][:2])
    assert run(equal_sizes, [(sized(9), sized(9))]) == (0, 1)
    assert run(equal_sizes, [(sized(9), sized(8))]) == (1, 0)  # their relation does not hold
    assert run(equal_sizes, [(sized(1), sized(1))]) == (1, 0)


def test_marked_sizes() -> None:
    def marked(size: int) -> torch.Tensor:
        made = sized(size, 3)
        framelift.mark_dynamic(made, 0, min=2, max=64)
        return made

    assert run(product, [(marked(4),)]) == (1, 0)
    assert run(product, [(marked(8),), (marked(9),)]) == (0, 1)


def test_a_number_that_is_none_any_more() -> None:
    run(branching, CALLS[branching][:2])
    assert run(branching, [(sized(2), 9)]) == (0, 1)
    assert run(branching, [(sized(2), 9.0)]) == (1, 0)


def test_other_floats_than_those_of_the_first_process() -> None:
    run(compared, CALLS[compared])
    assert run(compared, [(sized(3), 0.5625)]) == (0, 1)
    assert run(compared, [(sized(3), 0.0625)]) == (0, 1)
    for odd in (math.inf, -math.inf, math.nan, 0.0, -0.0, 1e308, 5e-324):
        run(compared, [(sized(3), odd)])  # equal to eager mode
    assert run(compared, [(sized(3), 2)])[1] == 0


def test_what_changed_in_the_first_process_is_symbolic_in_the_second() -> None:
    run(scaled, [(sized(3), 0.5), (sized(3), 0.25)])
    doubled = [(sized(3).double(), 0.5), (sized(3).double(), 0.25)]
    assert run(scaled, [(sized(3), 0.75), *doubled]) == (1, 1)  # one more capture, for all floats


def test_expressions() -> None:
    import sympy
    from torch.utils._sympy.functions import FloorDiv, Mod

    a, b = sympy.symbols("a b", integer=True, positive=True)
    symbols = {"a": a, "b": b}
    for one in (a + 2 * b, FloorDiv(a * b, 2), sympy.Eq(Mod(a, 4), 0), sympy.And(a < b, sympy.Ne(b, 7)), a / 3):
        assert expression_of(expression_data(one), symbols) == one
    with pytest.raises(NotKept):
        expression_data(sympy.sin(a))
    for data in (["symbol", "c"], ["__import__", "os"], ["sin", 1], [], "a", None, ["Eq"]):
        with pytest.raises((NotMine, ValueError)):
            expression_of(data, symbols)

"""Modes that count.

A mode of the program sees each torch call of the program once, and nothing that framelift looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import framelift


class Counting(TorchFunctionMode):
    """Notes the name of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class World:
    """What the programs below read; made anew for each run."""

    mask: torch.Tensor
    count: torch.Tensor
    weight: nn.Parameter
    inner: Counting
    array: Any


class Weight(nn.Parameter):
    """A kind of parameter that no graph takes."""


def _make() -> None:
    World.mask = torch.tensor([True, False, True])
    World.count = torch.tensor(2)
    World.weight = Weight(torch.ones(3))
    World.inner = Counting()
    World.array = numpy.array([1, 2, 3])


def _logs(run: Callable[..., Any], around: int, calls: int) -> list[Any]:
    _make()
    modes = [Counting() for _ in range(around)]
    rows: list[Any] = []
    for _ in range(calls):
        for mode in modes:
            mode.__enter__()
        try:
            result = run(torch.ones(3))
        finally:
            for mode in reversed(modes):
                mode.__exit__(None, None, None)
        rows.append((repr(result), torch._C._len_torch_function_stack()))
    return [rows, World.inner.seen, *(mode.seen for mode in modes)]


def same_logs(program: Callable[..., Any], calls: int = 3) -> None:
    """Results, and what modes around the call and inside of it saw, are those of eager."""
    for around in (0, 1, 2):
        framelift.reset()
        want = _logs(program, around, calls)
        assert _logs(framelift.compile(program, backend="eager"), around, calls) == want


def condition(x: torch.Tensor) -> Any:
    return x + 1 if World.mask.any() else x


def condition_in_a_block(x: torch.Tensor) -> Any:
    with World.inner:
        y = x + 1
        if World.mask.any():
            y = y * 2
    return y.sin()


def item(x: torch.Tensor) -> Any:
    return x.repeat(World.count.item())


def numbers(x: torch.Tensor) -> Any:
    return int(World.count), float(World.mask.sum()), bool(World.mask[0]), World.mask.tolist(), len(x), x.shape


@pytest.mark.parametrize("program", [condition, condition_in_a_block, item, numbers])
def test_guards_on_what_small_tensors_hold_are_seen_by_no_mode(program: Callable[..., Any]) -> None:
    same_logs(program)


@pytest.mark.parametrize("verify", [False, True])
def test_guards_that_fail_are_seen_by_no_mode(verify: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framelift.config, "verify_guards", verify)
    framelift.reset()
    rows = []
    for run in (condition, framelift.compile(condition, backend="eager")):
        _make()
        with Counting() as mode:
            for change in range(4):
                World.mask.fill_(bool(change % 2))
                run(torch.ones(3 + change))
        rows.append(mode.seen)
    assert rows[0] == rows[1]


def attribute(x: torch.Tensor) -> Any:
    return World.weight.shape, World.weight.dtype, x + 1


def operation(x: torch.Tensor) -> Any:
    return torch.relu(World.weight), x + World.weight


def in_a_list(x: torch.Tensor) -> Any:
    return torch.cat([x, World.weight])


def descriptor(x: torch.Tensor) -> Any:
    return torch.Tensor.shape.__get__(World.weight), x + 1  # type: ignore[attr-defined]


def made_inside(x: torch.Tensor) -> Any:
    with World.inner:
        return -x.as_subclass(Weight)


@pytest.mark.parametrize("program", [attribute, operation, in_a_list, descriptor, made_inside])
def test_tensors_that_no_graph_takes_break_under_modes(program: Callable[..., Any]) -> None:
    same_logs(program)


def of_arrays(x: torch.Tensor) -> Any:
    World.array[0] = 4
    return World.array.shape[0], World.array.sum(), World.array + 1, numpy.add(World.array, 1), x + 1


def numbers_of_arrays(x: torch.Tensor) -> Any:
    return int(World.array[0]), World.array.tolist(), x * int(World.array.max())


def arrays_in_a_block(x: torch.Tensor) -> Any:
    with World.inner:
        return float(World.array[1]), World.array.mean(), len(World.array), x + 1


def tensors_of_arrays(x: torch.Tensor) -> Any:
    return (
        torch.from_numpy(World.array) + x,
        torch.tensor(World.array),
        torch.as_tensor(World.array),
        torch.asarray(World.array),
    )


def arrays_of_tensors(x: torch.Tensor) -> Any:
    return x.numpy() + 1, numpy.asarray(x), numpy.stack([x, x])


@pytest.mark.parametrize(
    "program", [of_arrays, numbers_of_arrays, arrays_in_a_block, tensors_of_arrays, arrays_of_tensors]
)
def test_what_numpy_does_is_seen_by_no_mode(program: Callable[..., Any]) -> None:
    same_logs(program)


class Logged(torch.Tensor):
    """Notes the name of each call in the world's mode."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        World.inner.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def arrays_of_subclasses(x: torch.Tensor) -> Any:
    y = x.as_subclass(Logged)
    return numpy.asarray(y), World.array * 2, y + 1


def test_arrays_made_of_overriding_subclasses() -> None:
    same_logs(arrays_of_subclasses)


def compared(x: torch.Tensor) -> Any:
    y = x.as_subclass(Logged)
    return y == "text", y != None, x == "text", y[0] in ("a", None)  # noqa: E711


def matched(x: torch.Tensor) -> Any:
    match x.as_subclass(Logged)[0]:
        case None | "up":
            return x
        case _:
            return x + 1


@pytest.mark.parametrize("program", [compared, matched])
def test_a_mode_that_leaves_the_answer_to_the_class(program: Callable[..., Any]) -> None:
    same_logs(program)

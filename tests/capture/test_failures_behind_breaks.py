"""A capture that fails behind a break.

The exception is raised in the frame, whose `with` blocks end and whose handlers see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framelift


class Backend:
    """Compiles the first graph and fails with the second."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.graphs = error, 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        if self.graphs == 2:
            raise self.error
        return graph


LOG: list[Any] = []


class Block:
    """Notes how it ends."""

    def __init__(self, swallows: bool = False) -> None:
        self.swallows = swallows

    def __enter__(self) -> None:
        LOG.append("begins")

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        LOG.append(kind.__name__ if kind is not None else None)
        return self.swallows


class Mode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def no_grad(x: torch.Tensor) -> Any:
    y = x * 2
    with torch.no_grad():
        y = y.cos()
        print(end="")
        y = y + 1
    return y


def mode(x: torch.Tensor) -> Any:
    with Mode():
        y = x.cos()
        print(end="")
        y = y + 1
    return y


def autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu"):
        y = x.cos()
        print(end="")
        y = y + 1
    return y


def block(x: torch.Tensor) -> Any:
    with Block(), Block():
        y = x.cos()
        print(end="")
        y = y + 1
    return y


def finally_block(x: torch.Tensor) -> Any:
    try:
        y = x.cos()
        print(end="")
        return y + 1
    finally:
        LOG.append("finally")


def loop(x: torch.Tensor) -> Any:
    for step in (1, 2, 3):
        with Block():
            x = x.cos() * step
            print(end="")
            x = x + 1
    return x


def with_cells(x: torch.Tensor) -> Any:
    amount = [1]

    def more() -> int:
        amount.append(len(amount))
        return 2

    with Block():
        x = x.cos()
        print(end="")
        x = x + more()
    return x


def in_a_handler(x: torch.Tensor) -> Any:
    try:
        raise KeyError("first")
    except KeyError as error:
        with Block():
            x = x.cos()
            print(end="")
            x = x + len(error.args)
    return x


def called(x: torch.Tensor) -> Any:
    return block(x) + 1


PROGRAMS = [no_grad, mode, autocast, block, finally_block, loop, with_cells, in_a_handler, called]


def _state() -> tuple[Any, ...]:
    return torch.is_grad_enabled(), torch._C._len_torch_function_stack(), torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("error", [ValueError("cannot"), KeyboardInterrupt()])
@pytest.mark.parametrize("program", PROGRAMS)
def test_blocks_end(program: Callable[..., Any], error: BaseException) -> None:
    framelift.reset()
    before = _state()
    LOG.clear()
    wanted: Any = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else framelift.exc.BackendCompilerFailed
    with pytest.raises(wanted) as raised:
        framelift.compile(program, backend=Backend(error))(torch.ones(3))
    assert _state() == before
    begun = LOG.count("begins")
    assert LOG[begun:] == [raised.type.__name__] * begun or LOG == ["finally"]


def handled(x: torch.Tensor) -> Any:
    try:
        y = x.cos()
        print(end="")
        y = y + 1
    except framelift.exc.BackendCompilerFailed as error:
        return x * 5, str(error).startswith("backend")
    return y


def swallowed(x: torch.Tensor) -> Any:
    y = x
    with Block(swallows=True):
        y = x.cos()
        print(end="")
        y = y + 1
    return y.shape, LOG[-1]


def test_handlers_of_the_frame_see_it() -> None:
    framelift.reset()
    result, said = framelift.compile(handled, backend=Backend(ValueError("cannot")))(torch.ones(3))
    assert result.tolist() == [5, 5, 5] and said
    framelift.reset()
    LOG.clear()
    assert framelift.compile(swallowed, backend=Backend(ValueError("cannot")))(torch.ones(3)) == (
        (3,),
        "BackendCompilerFailed",
    )


def test_the_traceback_names_the_line() -> None:
    framelift.reset()
    with pytest.raises(framelift.exc.BackendCompilerFailed) as raised:
        framelift.compile(block, backend=Backend(ValueError("cannot")))(torch.ones(3))
    lines = [entry.lineno + 1 - block.__code__.co_firstlineno for entry in raised.traceback if entry.name == "block"]
    assert 3 in lines


class Measures(Block):
    """Has a graph of its own at its end."""

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        self.norm = torch.ones(2) * 3
        return super().__exit__(kind, value, trace)


def part(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x.cos()


def returns_a_call(x: torch.Tensor) -> Any:
    with Measures():
        return part(x)


def returns_a_call_of_two_blocks(x: torch.Tensor) -> Any:
    with Measures(), Measures():
        return part(x)


def leaves_a_loop(x: torch.Tensor) -> Any:
    for _ in range(2):
        with Measures():
            part(x)
            break
    return x * 2


def next_round(x: torch.Tensor) -> Any:
    for _ in range(2):
        with Measures():
            if part(x).sum() > -100:
                continue
    return x * 2


def returns_a_call_finally(x: torch.Tensor) -> Any:
    try:
        return part(x)
    except KeyError:
        LOG.append("not here")
    finally:
        x = x * 2
        LOG.append("finally")


def within_another_finally(x: torch.Tensor) -> Any:
    try:
        with Measures():
            return part(x)
    finally:
        x = x * 2
        LOG.append("finally")


@pytest.mark.parametrize("error", [ValueError("cannot"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    "program",
    [
        returns_a_call,
        returns_a_call_of_two_blocks,
        leaves_a_loop,
        next_round,
        returns_a_call_finally,
        within_another_finally,
    ],
)
def test_blocks_end_that_were_about_to_end(program: Callable[..., Any], error: BaseException) -> None:
    """The part behind the break is the end of the block itself, which the block's own handler does not cover."""
    framelift.reset()
    LOG.clear()
    wanted: Any = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else framelift.exc.BackendCompilerFailed
    with pytest.raises(wanted) as raised:
        framelift.compile(program, backend=Backend(error))(torch.ones(2))
    begun = LOG.count("begins")
    ended = [raised.type.__name__] * begun + ["finally"] * program.__name__.endswith("finally")
    assert LOG == ["begins"] * begun + ended


def swallowed_at_the_end(x: torch.Tensor) -> Any:
    with Measures(swallows=True):
        return part(x)
    return x * 7


def test_what_follows_a_block_that_swallows_has_its_variables() -> None:
    framelift.reset()
    LOG.clear()
    assert framelift.compile(swallowed_at_the_end, backend=Backend(ValueError("cannot")))(torch.ones(2)).tolist() == [
        7,
        7,
    ]
    assert LOG == ["begins", "BackendCompilerFailed"]

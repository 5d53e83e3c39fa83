"""Captures of calls under torch function modes, kept on disk: the modes are reached and guarded as at any call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framelift
from framelift import config


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


class Scaled(TorchFunctionMode):
    """Multiplies sines, and counts what it sees."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by, self.seen = by, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        result = func(*args, **(kwargs or {}))
        return result * self.by if func is torch.sin else result


class Derived(Scaled):
    pass


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + torch.ones(2)


def leaving(x: torch.Tensor) -> torch.Tensor:
    Scaled(2.0).__enter__()
    return torch.sin(x)


def under(function: Callable[..., Any], modes: list[Any]) -> Any:
    """The result of a call under modes, and what they saw."""
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        before = [getattr(mode, "seen", 0) for mode in modes]
        result = function(torch.ones(2))
        return result.tolist(), [getattr(mode, "seen", 0) - b for mode, b in zip(modes, before)]


def loads(function: Callable[..., Any], *modes: Any) -> int:
    """How many captures of a new process came from disk; two calls give what eager mode gives."""
    framelift.reset()
    before = framelift.stats()
    compiled = framelift.compile(function, backend="eager")
    want = under(function, list(modes))
    for _ in range(2):
        assert under(compiled, list(modes)) == want
    after = framelift.stats()
    loaded: int = after["loaded"] - before["loaded"]
    assert loaded + after["captures"] - before["captures"] == 1
    return loaded


def test_what_modes_do_is_part_of_a_kept_capture() -> None:
    rows: list[tuple[list[Any], int]] = [
        ([], 0),
        ([Scaled(2.0)], 0),
        ([Scaled(2.0)], 1),
        ([Scaled(3.0)], 0),
        ([Derived(2.0)], 0),
        ([Scaled(2.0), Scaled(3.0)], 0),
        ([Scaled(3.0), Scaled(2.0)], 0),
        ([Scaled(2.0), Scaled(3.0)], 1),
        ([torch.device("cpu")], 0),
        ([torch.device("cpu")], 1),
        ([Scaled(2.0), torch.device("cpu")], 0),
        ([], 1),
        ([Scaled(3.0)], 1),
    ]
    for modes, loaded in rows:
        assert loads(program, *modes) == loaded, modes


def test_a_mode_that_was_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 2
        return func(*args, **(kwargs or {}))

    assert [loads(program, Scaled(2.0)) for _ in range(2)] == [0, 1]
    monkeypatch.setattr(Scaled, "__torch_function__", other)
    assert [loads(program, Scaled(2.0)) for _ in range(2)] == [0, 1]


def test_modes_that_a_program_leaves_behind_are_not_kept() -> None:
    for _ in range(2):
        framelift.reset()
        before = framelift.stats()["loaded"]
        try:
            framelift.compile(leaving, backend="eager")(torch.ones(2))
        finally:
            torch._C._pop_torch_function_stack()
        assert framelift.stats()["loaded"] == before

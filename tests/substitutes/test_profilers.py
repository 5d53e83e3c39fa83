"""Profilers that captured code begins and ends itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from support import check

X = torch.ones(2, 3)
PROFILERS = {"torch.profiler": torch.profiler.profile, "torch.autograd": torch.autograd.profiler.profile}


@pytest.mark.parametrize("name", PROFILERS)
def test_one_that_nobody_looks_at_is_part_of_a_graph(name: str) -> None:
    profile = PROFILERS[name]

    def f(x: torch.Tensor) -> torch.Tensor:
        with profile(record_shapes=True) as seen, torch.profiler.record_function("a range"):  # noqa: F841
            y = x + 1
        try:
            with profile():
                raise ValueError("text")
        except ValueError as error:
            return y * len(str(error))

    check(f, X)


def _asked(x: torch.Tensor) -> Any:
    with torch.profiler.profile() as profiler:
        y = x + 1
    return y, len(profiler.key_averages()) > 0


def _returned(x: torch.Tensor) -> Any:
    with torch.profiler.profile() as profiler:
        y = x + 1
    return y, profiler


def _around_a_break(x: torch.Tensor) -> Any:
    with torch.profiler.profile() as profiler:
        y = x + 1
        framelift.graph_break()
        y = y.sin()
    return y, len(profiler.key_averages()) > 0


def _started(x: torch.Tensor) -> Any:
    profiler = torch.profiler.profile()
    profiler.start()
    y = x + 1
    profiler.stop()
    return y, len(profiler.key_averages()) > 0


@pytest.mark.parametrize("program", [_asked, _returned, _around_a_break, _started])
def test_one_that_is_asked_for_anything_has_seen_the_program(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        want, got = program(X), compiled(X)
        assert torch.equal(want[0], got[0]) and type(want[1]) is type(got[1])
        if program is _returned:
            assert len(got[1].key_averages()) > 0
        else:
            assert got[1] is want[1] is True


def test_one_that_calls_the_program_back_runs_eagerly() -> None:
    seen: list[Any] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.profile(on_trace_ready=seen.append):
            return x + 1

    framelift.compile(f, backend="eager")(X)
    assert len(seen) == 1

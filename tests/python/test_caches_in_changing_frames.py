"""functools.lru_cache from outside, asked for the first time in frames that change objects: the cache is to hold what
plain Python's holds, whatever the frame writes before it ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

_table = torch.ones(3)
_held = [1, 2]


def _total(number):
    return _table.sum() * number


def _length(number):
    return len(_held) + number


def _parts(number):
    return [number, 1], {"number": number}


class Counting(torch.nn.Module):
    """Writes its attributes and buffers around a call of a cached function."""

    def __init__(self, cached: Callable[[int], Any]) -> None:
        super().__init__()
        self.calls, self.cached = 0, cached
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.mean = self.mean + x.mean()
        found = self.cached(x.shape[0])
        self.mean.add_(1)
        self.last = x
        return x + (found if type(found) is int else found[0][0] + found[1]["number"])


@pytest.mark.parametrize("function", [lambda number: number + 1, _length, _parts])
def test_a_frame_that_changes_what_its_arguments_lead_to_is_captured_whole(function) -> None:
    caches = []

    def program(x, module):
        return module(x)

    def run(compile_):
        caches.append(functools.lru_cache(8)(function))
        module = Counting(caches[-1])
        compiled = compile_(program)
        rows = [(compiled(torch.ones(n, 2), module), module.calls, module.mean) for n in (3, 3, 4, 5)]
        return repr((rows, [caches[-1](n) for n in (3, 4, 5)]))

    framelift.reset()
    assert run(lambda f: framelift.compile(f, backend="eager", fullgraph=True)) == run(lambda f: f)


def _written_after(x, cached):
    y = x + cached(2)
    _table.add_(1)
    return y


def _written_by_a_view(x, cached):
    y = x + cached(2)
    _table[:2].mul_(3)
    return y


def _written_before(x, cached):
    _table.add_(1)
    return x + cached(2)


@pytest.mark.parametrize("program", [_written_after, _written_by_a_view, _written_before])
def test_a_cache_keeps_what_its_function_made_of_a_tensor_that_the_frame_writes(program) -> None:
    def run(compile_):
        _table.fill_(1)
        cached = functools.lru_cache(8)(_total)
        compiled = compile_(program)
        return repr(([compiled(torch.ones(3), cached) for _ in range(3)], cached(2), _table))

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_a_view_of_the_tensor_comes_as_an_argument() -> None:
    def program(x, view, cached):
        y = x + cached(2)
        view.add_(1)
        return y

    def run(compile_):
        _table.fill_(1)
        cached = functools.lru_cache(8)(_total)
        compiled = compile_(program)
        return repr(([compiled(torch.ones(3), _table[1:], cached) for _ in range(3)], cached(2), _table))

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


@pytest.mark.parametrize("number", [3, torch.ones(2, 3).shape[1]])
def test_the_object_that_a_cache_holds_comes_as_an_argument_and_is_changed(number) -> None:
    cached: Any = None

    def program(x, given):
        given[0].append(len(given[0]))
        return x + len(cached(x.shape[0])[0]), cached(x.shape[0])[0] is given[0]

    def run(compile_):
        nonlocal cached
        cached = functools.lru_cache(8)(_parts)
        compiled = compile_(program)
        rows = [compiled(torch.ones(n), ([n, 1], {})) for n in (number, 4)]
        rows += [compiled(torch.ones(n), cached(n)) for n in (5, 6, number, 4, 5)]
        return repr(rows)

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)


def test_a_constant_that_the_frame_changes_is_read_by_the_function() -> None:
    def program(x, cached):
        y = x + cached(1)
        _held.append(0)
        return y

    def run(compile_):
        del _held[2:]
        cached, rows = functools.lru_cache(8)(_length), []
        compiled = compile_(program)
        for _ in range(3):
            rows.append((compiled(torch.ones(2), cached), cached(1), cached(2)))
            cached.cache_clear()
        return repr(rows)

    assert run(lambda f: framelift.compile(f, backend="eager")) == run(lambda f: f)

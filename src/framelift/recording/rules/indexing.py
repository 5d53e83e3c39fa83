"""Tensors indexed by symbolic ints: torch's own indexing would make constants of them, its `select` does not.

Slices whose bounds are tensors: torch takes the numbers, and so does the graph.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import config
from ...graph.fx.targets import target_of
from ...graph.symbols.numbers import Int
from ...torch_ports.tensors import TensorBase
from ..session import Recorder
from .ranks import Handler, Rank, around

_PLAIN = (int, slice, type(None), type(Ellipsis), Int)


def _by_selection(recorder: Recorder, tensor: Any, index: Any) -> Any:
    """`tensor[index]` where ints in the index are symbolic; None where there are none, or for other indices."""
    parts = index if type(index) is tuple else (index,)
    if (
        not any(type(part) is Int for part in parts)
        or not all(type(part) in _PLAIN for part in parts)
        or not recorder.is_stand_in(tensor)
    ):
        return None
    rank = len(recorder.value_of(tensor).facts.size)
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    if taken > rank or parts.count(Ellipsis) > 1:
        return None  # an error, raised by torch
    rest = tuple(slice(None) if type(part) is Int else part for part in parts)
    plain = all(type(part) is slice and part == slice(None) for part in rest)
    selected = (
        tensor
        if plain
        else recorder.call(torch.Tensor.__getitem__, (tensor, rest if type(index) is tuple else rest[0]), {})
    )
    for dim, number in reversed(_places(parts, rank - taken)):
        selected = recorder.call(torch.select, (selected, dim, number), {})
    return selected


def _places(parts: tuple[Any, ...], skipped: int) -> list[tuple[int, Int]]:
    """The symbolic ints, each with its dimension of what the rest of the index gives."""
    dim = 0
    found = []
    for part in parts:
        if type(part) is Int:
            found.append((dim, part))
        dim += skipped if part is Ellipsis else type(part) is not int
    return found


def _with_bounds(recorder: Recorder, index: Any) -> Any:
    """An index with numbers of the graph for the tensors of one integer that bound its slices."""
    if type(index) is tuple:
        return tuple(_with_bounds(recorder, part) for part in index)
    if type(index) is not slice:
        return index
    bounds = [index.start, index.stop, index.step]
    if not any(map(recorder.is_stand_in, bounds)):
        return index
    return slice(*(_number(recorder, bound) for bound in bounds))


def _number(recorder: Recorder, bound: Any) -> Any:
    """Return the result of `operator.index` for a tensor; whatever it refuses is left to torch."""
    if not recorder.is_stand_in(bound):
        return bound
    facts = recorder.value_of(bound).facts
    if facts.size or facts.dtype.is_floating_point or facts.dtype.is_complex or facts.dtype is torch.bool:
        return bound
    return recorder.call(torch.Tensor.item, (bound,), {})


def _indexed(func: Any, otherwise: Handler | None) -> Handler:
    def handler(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.capture_scalar_outputs and len(args) > 1 and not kwargs:
            args = (args[0], _with_bounds(recorder, args[1]), *args[2:])
        selected = (
            _by_selection(recorder, *args[:2])
            if recorder.symbols is not None and len(args) > 1 and not kwargs
            else None
        )
        if selected is not None and len(args) == 2:
            return selected
        if selected is not None and len(args) == 3:
            args = (selected, Ellipsis, args[2])
        if otherwise is not None:
            return otherwise(recorder, args, kwargs)
        return recorder.record(target_of(func), args, kwargs)

    return handler


for _func in (TensorBase.__getitem__, TensorBase.__setitem__):
    around(Rank.INDEXED, _func, functools.partial(_indexed, _func))

"""Strides of results that captured code asks for are those of eager mode, however the arguments lie in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from support import check

_Layout = tuple[tuple[int, ...], tuple[int, ...]]

#: name -> the operation, how many tensors it takes, and whether their shapes must be equal
_OPERATIONS: dict[str, tuple[Callable[..., torch.Tensor], int, bool]] = {
    "exp": (torch.exp, 1, False),
    "relu": (torch.relu, 1, False),
    "gelu": (F.gelu, 1, False),
    "double": (lambda x: x.double(), 1, False),
    "add number": (lambda x: x + 1, 1, False),
    "number minus": (lambda x: 1 - x, 1, False),
    "number to the power": (lambda x: 2**x, 1, False),
    "clamp": (lambda x: x.clamp(0, 1), 1, False),
    "compare": (lambda x: x > 0, 1, False),
    "clone": (torch.clone, 1, False),
    "zeros_like": (torch.zeros_like, 1, False),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), 1, False),
    "softmax": (lambda x: x.softmax(-1), 1, False),
    "sum": (lambda x: x.sum(0, keepdim=True), 1, False),
    "amax": (lambda x: x.amax(-1), 1, False),
    "cumsum": (lambda x: x.cumsum(0), 1, False),
    "reshape": (lambda x: x.reshape(-1), 1, False),
    "flip": (lambda x: x.flip(0), 1, False),
    "transpose": (lambda x: x.transpose(0, -1) * 2, 1, False),
    "getitem": (lambda x: x[..., :1] + 0.5, 1, False),
    "contiguous": (lambda x: x.contiguous(), 1, False),
    "add": (torch.add, 2, False),
    "div": (torch.div, 2, False),
    "maximum": (torch.maximum, 2, False),
    "logical_and": (torch.logical_and, 2, False),
    "clamp by tensor": (torch.clamp, 2, False),
    "pow": (torch.pow, 2, False),
    "where": (lambda x, y: torch.where(x > 0, x, y), 2, False),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.5), 2, True),
    "cat": (lambda x, y: torch.cat([x, y]), 2, True),
    "stack": (lambda x, y: torch.stack([x, y]), 2, True),
    "matmul": (lambda x, y: x @ y.transpose(-1, -2), 2, True),
    "addcmul": (torch.addcmul, 3, False),
}


def _layout(draw: random.Random, size: tuple[int, ...]) -> _Layout:
    """Strides for this size.

    Dense in some order, with gaps, expanded, or anything in the dimensions of size 0 and 1.
    """
    kind = draw.choice(("dense", "gaps", "expanded", "odd"))
    strides, step = [0] * len(size), 1
    for dim in draw.sample(range(len(size)), len(size)):
        strides[dim] = step
        step *= max(size[dim], 1) + (kind == "gaps" and draw.random() < 0.5)
    if kind == "expanded":
        strides[draw.randrange(len(size))] = 0
    if kind == "odd":
        strides = [draw.choice((0, 1, 2, 7, 40)) if length <= 1 else stride for length, stride in zip(size, strides)]
    return size, tuple(strides)


def _given(draw: random.Random, count: int, equal: bool) -> list[torch.Tensor]:
    size = tuple(draw.choice((0, 1, 1, 2, 3) if draw.random() < 0.3 else (1, 2, 3)) for _ in range(draw.randint(2, 4)))
    layouts = []
    for _ in range(count):
        one = (
            size
            if equal
            else tuple(1 if draw.random() < 0.25 else length for length in size)[
                draw.randint(0, 1) if not equal and draw.random() < 0.3 else 0 :
            ]
        )
        layouts.append(_layout(draw, one))
    return [torch.zeros(200).as_strided(size, strides) for size, strides in layouts]


def _with_layout(f: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def program(*args: torch.Tensor) -> Any:
        result = f(*args)
        return result, result.stride(), result.is_contiguous()

    return program


@pytest.mark.parametrize("name", _OPERATIONS)
def test_strides_of_results_are_those_of_plain_pytorch(name: str) -> None:
    f, count, equal = _OPERATIONS[name]
    draw = random.Random(name)
    for _ in range(12):
        args = _given(draw, count, equal)
        program = _with_layout(f)
        _, strides, contiguous = program(*args)
        result, captured_strides, captured_contiguous = framelift.compile(program, backend="eager", dynamic=False)(
            *args
        )
        assert (
            (strides, contiguous)
            == (captured_strides, captured_contiguous)
            == (result.stride(), result.is_contiguous())
        ), [(tuple(arg.shape), arg.stride()) for arg in args]


def test_ordinary_layouts_are_believed() -> None:
    check(_with_layout(lambda x: x + 1), torch.rand(2, 3, 4).transpose(0, 2))
    check(_with_layout(lambda x: torch.relu(x) * 2), torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last))
    check(_with_layout(lambda x: x + 1), torch.rand(4, 1))
    check(
        _with_layout(lambda x, bias: x + bias),
        torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.rand(1, 3, 1, 1),
    )
    check(_with_layout(lambda x: x.new_zeros(2, 0, 3)), torch.rand(2))
    check(_with_layout(lambda x: torch.zeros(2, 0, 3)), torch.rand(2))


def test_a_dimension_of_size_one_with_a_stride_of_its_own_is_a_break() -> None:
    check(
        _with_layout(lambda x: x + 1), torch.rand(28).as_strided((4, 1), (1, 7)), graphs=None, captures=None, breaks=1
    )

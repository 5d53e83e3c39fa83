"""Lists of tensors of half precision with a tensor in the place of a number: rounded once, as by torch's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def _scaled(p, q, r, number):
    return torch._foreach_add(p, q, alpha=number), torch._foreach_sub(p, q, alpha=number)


def _scaled_in_place(p, q, r, number):
    same = torch._foreach_add_(p, q, alpha=number)
    return same is p, torch._foreach_sub_(p, r, alpha=number) is p


def _fused(p, q, r, number):
    each = torch.stack([number, number * 2])
    return torch._foreach_addcmul(p, q, r, value=number), torch._foreach_addcdiv(p, q, r, each)


def _fused_in_place(p, q, r, number):
    return torch._foreach_addcmul_(p, q, r, value=number) is p


def _given(dtype: torch.dtype) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    lists = [[(torch.rand(64, generator=generator) + 0.5).to(dtype) for _ in range(2)] for _ in range(3)]
    return [*lists, torch.tensor(0.3331)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("f", [_scaled, _scaled_in_place, _fused, _fused_in_place])
def test_rounded_once(f: Callable[..., Any], dtype: torch.dtype) -> None:
    ours, theirs = _given(dtype), _given(dtype)
    found, expected = framelift.compile(f, backend="eager", fullgraph=True)(*ours), f(*theirs)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close((found, ours), (expected, theirs), rtol=unit, atol=0)
    if f is _scaled:
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_one_number_where_a_row_of_them_is_wanted() -> None:
    def f(p, q, r, number):
        return torch._foreach_addcdiv(p, q, r, number)

    with pytest.raises(RuntimeError, match="packed scalar"):
        framelift.compile(f, backend="eager")(*_given(torch.float16))


@pytest.mark.parametrize("place", ("argument", "inside"))
def test_interpolation_by_a_weight_that_is_a_tensor(place: str) -> None:
    def program(x: torch.Tensor, weight: torch.Tensor) -> Any:
        by = weight if place == "argument" else weight * 1
        many = [x, x + 1]
        torch._foreach_lerp_(many, [x * 2, x], by)
        return many, torch._foreach_lerp([x], [x + 3], weight=by)

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for weight in (0.5, 0.25):
        want, got = (run(torch.arange(4.0), torch.tensor(weight)) for run in (program, captured))
        for a, b in zip((*want[0], *want[1]), (*got[0], *got[1]), strict=True):
            assert torch.equal(a, b)
    assert framelift.stats()["captures"] >= 1


@pytest.mark.parametrize("kind", (torch.HalfTensor, torch.FloatTensor, torch.LongTensor, "torch.DoubleTensor"))
def test_conversion_to_the_classes_of_old(kind: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        made = x.type(kind)
        return made, made is x, x.type()

    captured = framelift.compile(program, backend="eager", fullgraph=True)
    for x in (torch.arange(3.0), torch.arange(3)):
        want, got = program(x), captured(x)
        assert torch.equal(want[0], got[0]) and want[0].dtype is got[0].dtype and want[1:] == got[1:]

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

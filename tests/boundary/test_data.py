"""Tensors made of nests of numbers and of tensors of one number each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support import check

X = torch.arange(3.0)
WHOLE = torch.tensor([2**60 + 1, 3, 5])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor([x.sum(), x.mean()]),
        lambda x: torch.tensor([x[:1], x[1:2].reshape(1, 1)]),
        lambda x: torch.tensor([[x.sum(), 1.0], [2, x.max()]]),
        lambda x: torch.tensor([x.sum().half(), 3.0]),
        lambda x: torch.tensor([x.sum() > 0, 2, True]),
        lambda x: torch.tensor([x.sum().to(torch.int8), 3]),
        lambda x: torch.tensor([x.sum().double(), x.mean()], dtype=torch.float16),
        lambda x: x.new_tensor([x.sum(), 1.0]),
        lambda x: torch.as_tensor([x.sum(), 2]),
        lambda x: torch.tensor([torch.tensor([[[123]]]), torch.tensor(4)]) + x.sum(),
    ],
)
def test_nests_of_single_numbers(make: Any) -> None:
    check(make, X)
    check(make, X.clone().requires_grad_(), backend="aot_eager")


def test_whole_numbers_become_fractions_as_python_has_them() -> None:
    check(lambda x: torch.tensor([x[0], 0.5]), WHOLE)
    check(lambda x: torch.tensor([x[0], x[1]], dtype=torch.float32), WHOLE)
    check(lambda x: torch.tensor([x[1], x[2]], dtype=torch.int16), WHOLE)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor([x, x]),
        lambda x: torch.tensor([x.sum(), x.mean()], dtype=torch.int64),
        lambda x: x.long().new_tensor([x.sum(), 1.5]),
        lambda x: torch.tensor([[x.sum()], [1, 2]]),
    ],
)
def test_what_torch_refuses_is_refused(make: Any) -> None:
    check(make, X, graphs=None, breaks=None, captures=None, fullgraph=False)

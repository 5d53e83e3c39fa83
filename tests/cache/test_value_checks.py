"""Captures that took values of small tensors into Python: they are kept, and loaded for equal values only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from framelift import config
from kept_support import check


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Any:
    with config.patch(strict=True, cache_dir=str(tmp_path), cache=True):
        yield


def by_values(x: torch.Tensor, sizes: torch.Tensor) -> Any:
    return [part * 2 for part in x.split(sizes.tolist())]


def by_result(x: torch.Tensor, ids: torch.Tensor) -> Any:
    return x * 2 if (ids == 3).sum() > 1 else x - 1


def test_values() -> None:
    x = torch.ones(6)
    for sizes, loaded in (([2, 4], False), ([2, 4], True), ([3, 3], False), ([3, 3], True), ([2, 4], True)):
        check(by_values, x, torch.tensor(sizes), loaded=loaded)


def test_what_follows_from_values() -> None:
    x = torch.ones(2)
    for ids, loaded in (
        ([3, 3, 1], False),
        ([3, 3, 1], True),
        ([1, 3, 3], True),
        ([1, 2, 3], False),
        ([3, 1, 2], True),
    ):
        check(by_result, x, torch.tensor(ids), loaded=loaded)


TABLE = torch.tensor([[0.5, 1.0], [0.0, 2.0]])


def by_table(x: torch.Tensor) -> Any:
    return x * 2 if TABLE[0, 1] == 1 and (TABLE[..., 1:] > 0).all() else x - 1


def test_what_follows_from_held_fractions() -> None:
    for value, loaded in ((1.0, False), (1.0, True), (3.0, False)):
        TABLE[0, 1] = value
        check(by_table, torch.ones(2), loaded=loaded)


def by_text(x: torch.Tensor, ids: torch.Tensor) -> Any:
    return x * len(repr(ids.tolist())) if ids.dim() else x * len(str(ids))


def test_texts() -> None:
    for ids, loaded in (([3, 10], False), ([3, 10], True)):
        check(by_text, torch.ones(2), torch.tensor(ids), loaded=loaded)

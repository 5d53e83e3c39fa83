"""Operators of the program and functions of numpy in captures that are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from framelift import config
from framelift.cache.called_operators import operator_facts
from framelift.vocabulary.written_forms import NotKept
from kept_support import check


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Any:
    with config.patch(strict=True, cache_dir=str(tmp_path), cache=True):
        yield


@torch.library.custom_op("package_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("package_tests::outside", mutates_args=())
def outside(x: torch.Tensor) -> torch.Tensor:
    return x * np.pi


@outside.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, dtype=torch.float32 if np.pi > 3 else None)


@torch.library.custom_op("package_tests::held", mutates_args=())
def held(x: torch.Tensor) -> torch.Tensor:
    return x * HELD[0]


@held.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


HELD = [3.0]


def reading(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.package_tests.held(x) + 1


def calling(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.package_tests.twice(x) + 1


def with_numpy(x: torch.Tensor) -> torch.Tensor:
    return x * float(np.sqrt(4.0))


def test_an_operator_is_known_by_its_functions() -> None:
    for loaded in (False, True):
        check(calling, torch.ones(2), loaded=loaded)
    before = operator_facts(torch.ops.package_tests.twice.default)
    assert len(before[2][0]) == len(before[2][1]) == 2 and before[2][3] is None
    twice.register_fake(lambda x: torch.empty_like(x) if x.dim() else x.clone())
    assert operator_facts(torch.ops.package_tests.twice.default) != before
    check(calling, torch.ones(2), loaded=False)


def test_an_operator_that_uses_others_is_not_written() -> None:
    with pytest.raises(NotKept, match="uses others, whose code may change: np in package_tests.outside"):
        operator_facts(torch.ops.package_tests.outside.default)


def test_a_kernel_runs_when_the_graph_does() -> None:
    for loaded, value in ((False, 3.0), (True, 3.0), (True, 5.0)):
        HELD[0] = value
        check(reading, torch.ones(2), loaded=loaded)
    HELD[0] = 3.0


def test_functions_of_numpy() -> None:
    for loaded in (False, True):
        check(with_numpy, torch.ones(2), loaded=loaded)
    assert framelift.stats()["not_kept"] == {}

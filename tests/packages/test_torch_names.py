"""Captures on disk under the names that torch.compile has for such things: options, counters, off switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.exc import PackageError
from kept_support import check, counted


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Any:
    framelift.counters.clear()
    with config.patch(strict=True, cache_dir=str(tmp_path), caching_precompile=True):
        yield


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def of_this_process(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if hash("a") % 2 else 2)


def test_hits_and_misses_are_counted() -> None:
    assert config.cache and config.caching_precompile
    for loaded in (False, True):
        check(plain, torch.ones(2), loaded=loaded)
    assert framelift.counters["dynamo_cache"] == {"dynamo_cache_miss": 1, "dynamo_cache_hit": 1}


def test_reasons_are_counted_and_may_be_errors() -> None:
    check(of_this_process, torch.ones(2), loaded=False)
    assert framelift.counters["dynamo_cache_bypass"] == {"the program asks for what each process has of its own": 1}
    with config.patch(strict_precompile=True), pytest.raises(PackageError, match="cannot be kept on disk: the program"):
        counted(of_this_process, torch.ones(2))


def test_the_off_switch_and_the_tag() -> None:
    check(plain, torch.ones(2), loaded=False)
    with torch.compiler.config.patch(force_disable_caches=True):
        check(plain, torch.ones(2), loaded=False)
    with torch.compiler.config.patch(cache_key_tag="another"):
        check(plain, torch.ones(2), loaded=False)
        check(plain, torch.ones(2), loaded=True)
    check(plain, torch.ones(2), loaded=True)

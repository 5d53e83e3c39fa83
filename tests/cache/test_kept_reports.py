"""What reports say of captures on disk: loaded ones, and why others are not kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def hashed(x: torch.Tensor) -> torch.Tensor:
    return x + hash("a") % 7


def called(function: Any) -> Any:
    framelift.reset()
    compiled = framelift.compile(function, backend="eager")
    compiled(torch.ones(3))
    return compiled


def test_a_loaded_capture_is_shown() -> None:
    assert "loaded from disk" not in called(plain).report().to_text()
    compiled = called(plain)
    report = compiled.report()
    assert "1 capture loaded from disk, nothing was rehearsed" in report.to_text(width=200)
    assert "1 loaded from disk" in str(compiled)
    (capture,) = json.loads(report.to_json())["functions"][0]["captures"]
    assert capture["loaded"] is True and capture["not_kept"] == ""
    assert '"loaded": true' in report.to_html() or '"loaded":true' in report.to_html()


@pytest.mark.parametrize(("function", "why"), [(hashed, "the program asks for what each process has of its own: hash")])
def test_why_a_capture_is_not_kept_is_shown(function: Any, why: str) -> None:
    report = called(function).report()
    assert f"1 capture not kept on disk: {why}" in report.to_text(width=200)
    assert any(capture.not_kept == why for one in report.functions for capture in one.captures)
    assert framelift.stats()["not_kept"][why.partition(":")[0]] == 1

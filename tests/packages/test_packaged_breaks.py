"""Packages of functions with graph breaks: the parts of their frames, run where every rehearsal raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.rehearsal.session import Rehearsal

SEEN: list[Any] = []
LIMIT = 10


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path) -> Any:
    framelift.reset()
    SEEN.clear()
    with config.patch(strict=True, cache_dir=str(tmp_path / "keys"), record_captures=True):
        yield


def note(value: Any) -> None:
    SEEN.append(str(value))


@framelift.disable
def noted(x: torch.Tensor) -> torch.Tensor:
    note("disabled")
    return x + 3


def breaking(x: torch.Tensor, n: int = 2) -> dict[str, Any]:
    parts = [x * i for i in range(n)]
    framelift.graph_break()
    for one in parts:
        note(noted(one).tolist())
    try:
        found = (parts[0].sum() + LIMIT).item()
    finally:
        parts.append(x.sin())
    return {"sum": torch.stack(parts).sum(0), "found": found, "parts": parts}


def on_the_sign(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        framelift.graph_break()
        return self.layer(y).relu()


def raising(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.shape[0] == 3:
        raise ValueError("three")
    return y


def saved(function: Any, path: Path, *calls: Any) -> Any:
    compiled = framelift.compile(function, backend="eager", dynamic=False)
    for call in calls:
        compiled(*call)
    framelift.save_package(compiled, path)
    return compiled


def without_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("something was rehearsed")

    framelift.reset()
    monkeypatch.setattr(Rehearsal, "__init__", refuse)


def test_parts_of_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x = tmp_path / "package", torch.ones(3)
    saved(breaking, path, (x,))
    without_rehearsals(monkeypatch)
    SEEN.clear()
    expected, eager = breaking(x), SEEN.copy()
    SEEN.clear()
    loaded = framelift.load_package(path)
    assert repr(loaded(x)) == repr(expected) and SEEN == eager
    assert framelift.stats()["loaded"] > 2 and framelift.stats()["captures"] == 0
    assert "part of breaking" in framelift.show_package(path)
    with pytest.raises(framelift.exc.PackageError, match="n is now 3, was 2"):
        loaded(x, 3)


def test_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x, model = tmp_path / "package", torch.ones(2, 3), Model()
    saved(model, path, (x,))
    without_rehearsals(monkeypatch)
    assert torch.equal(framelift.load_package(path, model)(x), model(x))
    assert framelift.stats()["loaded"] == 4 and framelift.stats()["captures"] == 0


def test_each_way_a_break_goes_on_has_its_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x = tmp_path / "package", torch.ones(3)
    saved(on_the_sign, path, (x,), (-x,))
    without_rehearsals(monkeypatch)
    loaded = framelift.load_package(path)
    assert torch.equal(loaded(x), on_the_sign(x)) and torch.equal(loaded(-x), on_the_sign(-x))
    assert framelift.stats()["loaded"] == 3


def test_a_part_that_no_capture_is_for_runs_eagerly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x = tmp_path / "package", torch.ones(3)
    saved(breaking, path, (x,))
    monkeypatch.setitem(globals(), "LIMIT", 20)  # read after a break
    without_rehearsals(monkeypatch)
    SEEN.clear()
    loaded = framelift.load_package(path)
    with pytest.warns(UserWarning, match="a part of breaking, which runs eagerly: .*LIMIT.* is now 20, was 10"):
        found = loaded(x)
    assert repr(found) == repr(breaking(x))


def test_a_frame_that_an_exception_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "package"
    compiled = framelift.compile(raising, backend="eager", dynamic=False)
    for size in (2, 3):
        try:
            compiled(torch.ones(size))
        except ValueError:
            pass
    framelift.save_package(compiled, path)
    without_rehearsals(monkeypatch)
    loaded = framelift.load_package(path)
    assert loaded(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="three"):
        loaded(torch.ones(3))

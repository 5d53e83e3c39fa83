"""Captures in the bundles of `torch.compiler.save_cache_artifacts`, and captures from disk where recompiles are
forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.compiler._cache import CacheArtifactManager

import framelift
from framelift import config
from framelift.cache.artifacts import KeptCapture
from framelift.surface.torch_names.entries import cache_entries, precompile_entries
from kept_support import counted


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path / "first"), strict=True):
        with CacheArtifactManager.with_fresh_cache():
            yield


def program(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def other(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 2


def saved() -> bytes:
    """A bundle with the captures of both programs."""
    for function in (program, other):
        assert counted(function, torch.ones(3))[1:] == (1, 0)
    bundle, info = torch.compiler.save_cache_artifacts()  # type: ignore[misc]
    assert len(info.framelift_artifacts) == 2
    return bundle


def test_a_bundle_carries_captures_to_another_folder(tmp_path: Path) -> None:
    bundle = saved()
    with config.patch(cache_dir=str(tmp_path / "second")):
        info = torch.compiler.load_cache_artifacts(bundle)
        assert info is not None and len(info.framelift_artifacts) == 2
        for function in (program, other):
            result, captures, loaded = counted(function, torch.ones(3))
            assert (captures, loaded) == (0, 1) and result.equal(function(torch.ones(3)))


def test_what_was_loaded_is_part_of_the_next_bundle(tmp_path: Path) -> None:
    bundle = saved()
    CacheArtifactManager.clear()
    with config.patch(cache_dir=str(tmp_path / "second")):
        torch.compiler.load_cache_artifacts(bundle)
        assert counted(program, torch.ones(3))[1:] == (0, 1)
        again, info = torch.compiler.save_cache_artifacts()  # type: ignore[misc]
        assert len(info.framelift_artifacts) == 1
    with config.patch(cache_dir=str(tmp_path / "third")):
        torch.compiler.load_cache_artifacts(again)
        assert counted(program, torch.ones(3))[1:] == (0, 1)
        assert counted(other, torch.ones(3))[1:] == (1, 0)


def test_without_a_cache_nothing_is_kept(tmp_path: Path) -> None:
    bundle = saved()
    with config.patch(cache=False, cache_dir=str(tmp_path / "second")):
        torch.compiler.load_cache_artifacts(bundle)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    "key", ["", "a", "../../x/y", "0" * 40, "0" * 39 + "/x", "/" + "0" * 40, "0" * 40 + "\n/x", "0" * 40 + "/x"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b'{"a": NaN}', b"\xff"])
def test_damaged_parts_are_left_out(key: str, content: bytes, tmp_path: Path) -> None:
    KeptCapture(key, content).populate_cache()
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert set(files) <= {"key"}


def test_records_of_others_are_a_miss(tmp_path: Path) -> None:
    """A record that says nonsense is authentic once its bundle is trusted; it is still not used."""
    saved()
    (place, *_) = [path for path in (tmp_path / "first").rglob("*.capture")]
    key = place.parent.name
    with config.patch(cache_dir=str(tmp_path / "second")):
        KeptCapture(f"{key}/x", b'{"guards": [], "objects": 3}').populate_cache()
        for function in (program, other):
            result, captures, loaded = counted(function, torch.ones(3))
            assert (captures, loaded) == (1, 0) and result.equal(function(torch.ones(3)))


# ---- where recompiles are forbidden


def compiled_again(function: Any) -> Any:
    framelift.reset()
    return framelift.compile(function, backend="eager")


def test_a_capture_from_disk_is_no_recompile() -> None:
    x = torch.ones(3)
    counted(program, x)
    compiled = compiled_again(program)
    with framelift.set_stance("fail_on_recompile"):
        assert compiled(x).equal(program(x))
        with pytest.raises(RuntimeError, match="Detected recompile") as caught:
            compiled(torch.ones(3, dtype=torch.float64))
    assert "Failed on the following precompiled guards:\n    - program: " in str(caught.value)
    assert [entry.trace_annotation for entry in precompile_entries(program)] == ["program"]
    compiled(torch.ones(3, dtype=torch.float64))
    assert len(cache_entries(program)) == 2 and len(precompile_entries(program)) == 1


def test_a_stance_that_runs_eagerly_takes_captures_from_disk() -> None:
    x = torch.ones(3)
    counted(program, x)
    compiled = compiled_again(program)
    before = framelift.stats()
    with framelift.set_stance("eager_on_recompile"):
        assert compiled(x).equal(program(x))
        assert compiled(x.double()).equal(program(x.double()))
    after = framelift.stats()
    assert after["loaded"] - before["loaded"] == 1 and after["captures"] == before["captures"]


def test_nothing_on_disk_is_a_recompile() -> None:
    compiled = compiled_again(program)
    with framelift.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile") as caught:
        compiled(torch.ones(3))
    assert "precompiled" not in str(caught.value)
    assert precompile_entries(program) == []

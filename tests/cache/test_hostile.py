"""Damaged and hostile files, and writers that are killed: a sample of hostile.py and killed.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from framelift import config
from framelift.cache import store

sys.path.insert(0, str(Path(__file__).parent))

import hostile  # noqa: E402
import killed  # noqa: E402


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    return hostile.real_records()


@pytest.mark.parametrize("kind", sorted(set(hostile.KINDS)))
def test_a_hostile_file_is_not_used(
    kind: str, records: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "KINDS", (kind,))
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        place = hostile.make_place(tmp_path, records)
        assert {hostile.attack(number, place) for number in range(20)} == {kind}


def test_writers_that_are_killed(tmp_path: Path) -> None:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        assert killed.run(20) > 20


def test_a_key_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        (tmp_path / "key").write_bytes(b"short")
        (tmp_path / "key").chmod(0o600)
        assert list(store.records("0" * 40)) == []
        assert store.write("0" * 40, {"a": 1})
        assert [data for _, data in store.records("0" * 40)] == [{"a": 1}]


def test_a_link_in_the_place_of_the_key_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "key").symlink_to(tmp_path / "elsewhere")
    with config.patch(cache=True, cache_dir=str(tmp_path / "kept")):
        with pytest.raises(OSError, match="symbolic links"):
            store.write("0" * 40, {"a": 1})

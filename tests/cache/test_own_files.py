"""The hash of framelift's own files: noted in the cache's folder, and another one after any edit."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import framelift
import pytest
from framelift.cache import own_files, sealed_files

_OLD = 10**18  # a time long ago, in ns


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder of files that stands for framelift's."""
    folder = tmp_path / "framelift"
    (folder / "part").mkdir(parents=True)
    for name in ("one.py", "part/two.py", "core.so"):
        (folder / name).write_text(name)
        os.utime(folder / name, ns=(_OLD, _OLD))
    time.sleep(0.02)  # longer than a tick of the file system's clock
    monkeypatch.setattr(own_files, "FRAMELIFT", f"{folder}{os.sep}")
    monkeypatch.setattr(own_files, "_SETTLED", 0)
    with framelift.config.patch(cache=True, cache_dir=str(tmp_path / "cache")):
        yield folder


def found() -> str:
    """The hash, as a fresh process asks for it."""
    return own_files.own_files.__wrapped__()


def test_files_are_read_once(files, monkeypatch):
    first = found()
    monkeypatch.setattr(own_files, "_content", lambda paths: pytest.fail("files are read again"))
    assert found() == first


def _edit(path: Path) -> None:
    path.write_text(path.read_text().swapcase())


def _edit_and_hide(path: Path) -> None:
    """An edit that leaves the size and the time of the file as they were."""
    _edit(path)
    os.utime(path, ns=(_OLD, _OLD))


def _exchange(path: Path) -> None:
    """Another file in its place, with the same size and time."""
    other = path.with_name("other")
    other.write_text(path.read_text().swapcase())
    os.utime(other, ns=(_OLD, _OLD))
    os.replace(other, path)


@pytest.mark.parametrize("name", ["one.py", "part/two.py", "core.so"])
@pytest.mark.parametrize("edit", [_edit, _edit_and_hide, _exchange, os.unlink])
def test_any_edit_gives_another_hash(files, edit, name):
    first = found()
    edit(files / name)
    assert found() != first
    assert found() != first


def test_a_new_file_gives_another_hash(files):
    first = found()
    (files / "part" / "three.py").write_text("")
    assert found() != first


def test_a_file_that_is_moved_gives_another_hash(files):
    first = found()
    os.replace(files / "one.py", files / "part" / "one.py")
    assert found() != first


def test_copied_elsewhere_the_hash_is_the_same(files, tmp_path, monkeypatch):
    first = found()
    shutil.copytree(files, tmp_path / "copy")
    monkeypatch.setattr(own_files, "FRAMELIFT", f"{tmp_path / 'copy'}{os.sep}")
    assert found() == first


def test_a_file_that_was_just_written_is_not_noted(files, monkeypatch):
    monkeypatch.setattr(own_files, "_SETTLED", 3600 * 10**9)
    found()
    assert sealed_files.read_note("own_files") is None


def test_a_forged_note_is_not_used(files, tmp_path):
    first = found()
    path = tmp_path / "cache" / "own_files.note"
    path.write_bytes(path.read_bytes().replace(first.encode(), b"0" * 64))
    assert sealed_files.read_note("own_files") is None
    assert found() == first
    path.write_bytes(b"")
    assert found() == first


def test_a_note_that_is_no_note_is_not_used(files):
    first = found()
    for data in (None, [], {}, [1, 2, 3], ["a", 1]):
        sealed_files.write_note("own_files", data)
        assert found() == first


def test_without_a_cache_nothing_is_written(files, tmp_path):
    with framelift.config.patch(cache=False):
        found()
    assert not (tmp_path / "cache").exists()

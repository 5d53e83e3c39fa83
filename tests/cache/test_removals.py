"""What is removed from the cache folder: captures and temporary files of framelift's, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import framelift
from framelift import config
from framelift.cache import seal, sealed_files, store
from framelift.cache.refusals import NotMine

KEY, NAME = "ab" * 20, "0123456789abcdef" * 2 + ".capture"
_OLD = 10**9  # seconds: long ago


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(store, "_since_bounded", 0)
    with config.patch(cache=True, cache_dir=str(tmp_path / "cache"), cache_size=0):
        yield tmp_path / "cache"


def old(path: Path, content: bytes = b"a user's") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (_OLD, _OLD))
    return path


def look(rounds: int = 64) -> None:
    """Write so often that the whole folder is looked at twice."""
    for number in range(rounds):
        assert store.write(f"{number:040x}", {"number": number, "text": "x" * 1000})


#: places of files that a user may have in the folder that was chosen
PLACES = (
    "x.part",
    "x.capture",
    "tmp12345678.part",
    NAME,
    "framelift-0123.part",
    "framelift-0123456789ABCDEF.part",
    "recordings/x.capture",
    "recordings/x.part",
    "recordings/framelift-0123456789abcdef.part",
    f"recordings/{NAME}",
    "ab/x.part",
    "ab/x.capture",
    f"ab/{NAME}",
    f"ab/{KEY}/x.capture",
    f"ab/{KEY}/x.part",
    f"ab/{KEY}/{NAME}",  # its name is ours, its content is not
    f"ab/{KEY}/deeper/{NAME}",
    f"ab/{KEY}/{NAME}.part",
    f"cd/{KEY}/{NAME}",
    f"ABC/{KEY}/{NAME}",
    f"ab/{KEY}0/{NAME}",
)


def test_a_users_own_files_stay(folder: Path) -> None:
    files = [old(folder / place) for place in PLACES]
    look()
    for number in range(40):  # more than are kept of one key
        store.write(KEY, {"number": number})
    assert [file for file in files if not file.exists() or file.read_bytes() != b"a user's"] == []


@pytest.mark.parametrize("place", ["ab", f"ab/{KEY}", ""])
def test_links_are_not_followed(folder: Path, tmp_path: Path, place: str) -> None:
    """A link to a folder outside that looks like ours, with a good capture in it."""
    with config.patch(cache_size=64):
        store.write(KEY, {"a": 1})
    (made,) = folder.rglob("*.capture")
    outside = tmp_path / "outside"
    beside = outside / os.path.relpath(made, folder / place)
    old(beside, made.read_bytes())
    old(beside.parent / "framelift-0123456789abcdef.part")
    if place:
        for path in sorted((folder / place).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (folder / place).rmdir()
        (folder / place).symlink_to(outside)
        look()
        assert beside.exists() and (beside.parent / "framelift-0123456789abcdef.part").exists()
        assert list(store.records(KEY)) == []
    else:
        made.unlink()
        made.symlink_to(beside)
        look()
        assert beside.exists() and made.is_symlink()


def test_a_link_to_the_chosen_folder_is_the_users_choice(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large disk")
    with config.patch(cache_dir=str(tmp_path / "link"), cache_size=64):
        assert store.write(KEY, {"a": 1}) and [data for _, data in store.records(KEY)] == [{"a": 1}]


def test_our_own_files_go(folder: Path) -> None:
    with config.patch(cache_size=64):
        store.write(KEY, {"a": 1})
    (made,) = folder.rglob("*.capture")
    os.utime(made, (_OLD, _OLD))
    other_version = old(made.with_name("f" * 32 + ".capture"), b"framelift capture 1\n")
    left = [old(path / "framelift-0123456789abcdef.part") for path in (folder, folder / "ab", made.parent)]
    fresh = made.with_name("framelift-fedcba9876543210.part")
    fresh.write_bytes(b"")
    look()
    assert not any(path.exists() for path in (made, other_version, *left)) and fresh.exists()


def test_what_is_written_is_what_is_expected(folder: Path) -> None:
    with config.patch(cache_size=64):
        store.write(KEY, {"a": 1})
        sealed_files.write_note("facts", [1])
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    (capture,) = [name for name in names if name.endswith(".capture")]
    assert names == {"key", "facts.note", capture} and capture.startswith(f"ab/{KEY}/")
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "open", "long"])
def test_an_odd_key_leaks_nothing(folder: Path, kind: str) -> None:
    folder.mkdir()
    key = folder / "key"
    if kind == "folder":
        key.mkdir()
    elif kind == "pipe":
        os.mkfifo(key, 0o600)
    elif kind == "link":
        key.symlink_to(old(folder / "other", bytes(32)))
    else:
        key.write_bytes(bytes(32 if kind == "open" else 99))
        key.chmod(0o644 if kind == "open" else 0o600)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for write in (lambda: store.write(KEY, {"a": 1}), lambda: seal.user_key(make=True)):
            with pytest.raises((NotMine, OSError), match="remove it, and one is made" if kind == "long" else ""):
                write()
        assert list(store.records(KEY)) == []
    assert len(os.listdir("/proc/self/fd")) == before
    assert framelift.compile(lambda x: x + 1, backend="eager")(1) == 2

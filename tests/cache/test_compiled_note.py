"""Notes about compiled graphs, and the files they name, in a folder that somebody else writes to."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from framelift import config
from framelift.cache import files_below, seal, sealed_files
from framelift.cache.compiled_note import CompiledNote, read_compiled_note, write_compiled_note
from framelift.cache.refusals import NotMine

KEY, OTHER = "a" * 64, "b" * 64
LIBRARY = "ab/cabc.main.so"
EVIL = b"what an attacker wants to be loaded"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inductor's folder, with the files of two graphs and the notes about them."""
    monkeypatch.setattr(config, "cache_dir", str(tmp_path / "user"))
    caches = tmp_path / "caches"
    files = {
        LIBRARY: b"library",
        "ab/cother.so": b"other",
        "aotautograd/akey/one": b"entry",
        "fxgraph/ke/fkey/one": b"graph",
    }
    files["aotautograd/aother/one"] = b"another entry"
    for place, content in files.items():
        (caches / place).parent.mkdir(parents=True, exist_ok=True)
        (caches / place).write_bytes(content)
    assert noted(caches, KEY, "akey", LIBRARY) and noted(caches, OTHER, "aother", "ab/cother.so")
    return caches


def noted(caches: Path, key: str, entry: str, library: str) -> CompiledNote | None:
    places = {entry: f"aotautograd/{entry}", "fkey": "fxgraph/ke/fkey"}
    kernels = {"fkey": {"cpp_fused_0": (str(caches / library), "cabc")}}
    return write_compiled_note(str(caches), key, entry, places, kernels)


def path_of(caches: Path, key: str) -> Path:
    return caches / "framelift" / key[:2] / f"{key}.note"


def found(caches: Path, key: str = KEY) -> dict[str, bytes | None]:
    """What a process uses: place -> content; None for what it refuses."""
    try:
        note = read_compiled_note(str(caches), key)
    except (NotMine, OSError, ValueError):
        return {}
    result: dict[str, bytes | None] = {}
    for place in note.digests if note is not None else ():
        try:
            result[place] = note.content(str(caches), place)  # type: ignore[union-attr]
        except (NotMine, OSError):
            result[place] = None
    return result


def test_what_was_noted_is_found_again(folder: Path) -> None:
    assert found(folder) == {"aotautograd/akey/one": b"entry", "fxgraph/ke/fkey/one": b"graph", LIBRARY: b"library"}
    note = read_compiled_note(str(folder), KEY)
    assert note is not None and CompiledNote.from_data(json.loads(json.dumps(note.data())), {}) == note
    assert read_compiled_note(str(folder), "c" * 64) is None


def _plain(folder: Path) -> None:
    """A note as earlier versions wrote it, with a path outside."""
    digest = "0" * 64
    note = {"entry": "akey", "kernels": {"fkey": {"k": ["/tmp/evil.so", "cabc", digest]}}, "digests": {}}
    path_of(folder, KEY).write_text(json.dumps(note))


def _own_key(folder: Path) -> None:
    """Sealed, but with the key of an attacker."""
    content = path_of(folder, KEY).read_bytes().split(b"\n", 2)[2]
    head = path_of(folder, KEY).read_bytes().split(b"\n", 1)[0]
    path_of(folder, KEY).write_bytes(b"\n".join([head, seal.mac(b"x" * 32, f"graph {KEY}", content), content]))


def _replayed(folder: Path) -> None:
    """The note about another graph."""
    shutil.copy(path_of(folder, OTHER), path_of(folder, KEY))


def _hard_link(folder: Path) -> None:
    path_of(folder, KEY).unlink()
    path_of(folder, KEY).hardlink_to(path_of(folder, OTHER))


def _a_capture(folder: Path) -> None:
    """Another sealed file of the user: its name is another one."""
    sealed_files.write_note("own", {"entry": "akey"})
    shutil.copy(Path(seal.folder_of_key()) / "own.note", path_of(folder, KEY))


def _cut(folder: Path) -> None:
    path_of(folder, KEY).write_bytes(path_of(folder, KEY).read_bytes()[:-1])


def _link(folder: Path) -> None:
    """A link to a good note: who can move it can have another one read next time."""
    path_of(folder, KEY).rename(folder.parent / "moved")
    path_of(folder, KEY).symlink_to(folder.parent / "moved")


def _linked_folder(folder: Path) -> None:
    path_of(folder, KEY).parent.rename(folder.parent / "moved")
    path_of(folder, KEY).parent.symlink_to(folder.parent / "moved")


def _pipe(folder: Path) -> None:
    path_of(folder, KEY).unlink()
    os.mkfifo(path_of(folder, KEY))


def _folder(folder: Path) -> None:
    path_of(folder, KEY).unlink()
    path_of(folder, KEY).mkdir()


def _no_key(folder: Path) -> None:
    (Path(seal.folder_of_key()) / "key").unlink()


def _open_key(folder: Path) -> None:
    (Path(seal.folder_of_key()) / "key").chmod(0o644)


NOTES = (
    _plain,
    _own_key,
    _replayed,
    _hard_link,
    _a_capture,
    _cut,
    _link,
    _linked_folder,
    _pipe,
    _folder,
    _no_key,
    _open_key,
)


@pytest.mark.parametrize("attack", NOTES, ids=lambda one: one.__name__)
def test_a_note_that_is_not_ours_is_not_used(folder: Path, attack: Callable[[Path], None]) -> None:
    attack(folder)
    assert found(folder) == {}


def test_bits_of_a_note(folder: Path) -> None:
    whole = path_of(folder, KEY).read_bytes()
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 1
        path_of(folder, KEY).write_bytes(changed)
        assert found(folder) == {}


def _replaced(path: Path) -> None:
    path.unlink()
    path.write_bytes(EVIL)


def _linked(path: Path) -> None:
    (path.parent / "evil").write_bytes(EVIL)
    path.unlink()
    path.symlink_to("evil")


def _linked_to_the_same(path: Path) -> None:
    """A link to a file with the noted content, which can be another one when it is read again."""
    path.rename(path.parent / "moved")
    path.symlink_to("moved")


def _hard_linked(path: Path) -> None:
    path.unlink()
    path.hardlink_to(path.parents[1] / "ab/cother.so" if path.parent.name == "ab" else path.parents[1] / "aother/one")


def _truncated(path: Path) -> None:
    os.truncate(path, 3)


def _behind_a_link(path: Path) -> None:
    path.parent.rename(path.parents[2] / "moved")
    path.parent.symlink_to(path.parents[2] / "moved")


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _grown(path: Path) -> None:
    os.truncate(path, 1 << 40)


FILES = (_replaced, _linked, _linked_to_the_same, _hard_linked, _truncated, _behind_a_link, _piped, _grown)


@pytest.mark.parametrize("place", [LIBRARY, "aotautograd/akey/one"])
@pytest.mark.parametrize("attack", FILES, ids=lambda one: one.__name__)
def test_a_file_that_is_not_as_noted_is_not_used(folder: Path, attack: Callable[[Path], None], place: str) -> None:
    attack(folder / place)
    assert found(folder)[place] is None
    if attack is not _behind_a_link:  # what is outside is nobody's to remove
        assert not os.path.lexists(folder / place)  # torch would use it without looking
    else:
        assert (folder / place).exists()
    assert [one for one in found(folder).values() if one is not None] == [
        content
        for other, content in (
            ("aotautograd/akey/one", b"entry"),
            ("fxgraph/ke/fkey/one", b"graph"),
            (LIBRARY, b"library"),
        )
        if other != place
    ]


def test_files_that_are_swapped(folder: Path) -> None:
    one, two = folder / "aotautograd/akey/one", folder / "aotautograd/aother/one"
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert found(folder)["aotautograd/akey/one"] is None and found(folder, OTHER)["aotautograd/aother/one"] is None


def test_further_files_are_not_looked_at(folder: Path) -> None:
    (folder / "aotautograd/akey/0").write_bytes(EVIL)
    (folder / "fxgraph/ke/fkey/zz").write_bytes(EVIL)
    assert EVIL not in found(folder).values()
    assert (folder / "aotautograd/akey/0").exists()


@pytest.mark.parametrize(
    "place", ["../evil", "/etc/passwd", "ab/../../evil", "ab//x", "", ".", "ab/.", ".hidden", "a\0b", "ab/ä"]
)
def test_places_outside_are_refused(folder: Path, place: str) -> None:
    """In a note of a package, too, which is somebody else's and trusted."""
    (folder.parent / "evil").write_bytes(EVIL)
    note = CompiledNote("akey", {"akey": [place]}, {}, {place: "0" * 64})
    with pytest.raises(NotMine):
        note.content(str(folder), place)
    assert (folder.parent / "evil").exists()


def test_what_others_may_have_written_is_not_noted(folder: Path) -> None:
    for place, mode in (("ab", 0o777), (LIBRARY, 0o666), ("aotautograd/akey", 0o707), ("fxgraph", 0o757), ("", 0o777)):
        before = stat.S_IMODE((folder / place).stat().st_mode)
        path_of(folder, KEY).unlink(missing_ok=True)
        (folder / place).chmod(mode)
        assert noted(folder, KEY, "akey", LIBRARY) is None and not path_of(folder, KEY).exists(), place
        (folder / place).chmod(before)
        assert noted(folder, KEY, "akey", LIBRARY) is not None
    folder.chmod(0o1777)  # as /tmp is: others add files, and cannot replace ours
    assert noted(folder, KEY, "akey", LIBRARY) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator gives files away")
@pytest.mark.parametrize("place", ["", "ab", LIBRARY, "aotautograd/akey/one"])
def test_what_another_user_owns_is_not_noted(folder: Path, place: str) -> None:
    os.chown(folder / place, 12345, -1)
    assert noted(folder, KEY, "akey", LIBRARY) is None
    assert len([one for one in found(folder).values() if one is not None]) == 3  # what was noted before has its digests


def test_a_library_elsewhere_is_not_noted(folder: Path) -> None:
    (folder.parent / "evil.so").write_bytes(EVIL)
    assert noted(folder, KEY, "akey", "../evil.so") is None


def test_bytes_are_used_that_had_the_digest(folder: Path) -> None:
    """A file that changes all the time is either what was noted, or refused."""
    path, done = folder / LIBRARY, threading.Event()

    def exchange() -> None:
        number = 0
        while not done.is_set():
            number += 1
            (folder / f"new{number % 2}").write_bytes(EVIL if number % 2 else b"library")
            os.replace(folder / f"new{number % 2}", path)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        note = read_compiled_note(str(folder), KEY)
        assert note is not None
        seen = set()
        for _ in range(300):
            try:
                seen.add(note.content(str(folder), LIBRARY))
            except (NotMine, OSError):
                seen.add(b"")
        assert seen <= {b"library", b""}
    finally:
        done.set()
        thread.join()


def test_a_write_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "caches").mkdir()
    (tmp_path / "caches" / "framelift").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError):
        files_below.write_below(str(tmp_path / "caches"), "framelift/x", b"content")
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "caches" / "x").symlink_to(tmp_path / "file")
    files_below.write_below(str(tmp_path / "caches"), "x", b"content")
    assert (tmp_path / "file").read_bytes() == b"mine" and not (tmp_path / "caches" / "x").is_symlink()
    assert os.listdir(tmp_path / "outside") == []

"""One file with all that a start needs: many writers, other keys, damage, and a container that it is shipped to."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.cache import shared_file

from kept_support import counted

PROGRAM = Path(__file__).with_name("container_program.py")
SOURCE = Path(framelift.__file__).parents[1]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "key").write_bytes(os.urandom(32))
    for name, value in {
        "cache": True,
        "cache_dir": str(tmp_path / "folder"),
        "cache_key": str(tmp_path / "key"),
        "cache_url": str(tmp_path / "app.kept"),
    }.items():
        monkeypatch.setattr(framelift.config, name, value)
    yield str(tmp_path / "app.kept")
    shared_file._used.clear()
    shared_file._read.clear()


def as_in_a_new_process(tmp_path: Path) -> None:
    """Only the one file is left of what was kept."""
    shared_file.save()
    shared_file._read.clear()
    shutil.rmtree(tmp_path / "folder", ignore_errors=True)


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("form", ["{}", "file://{}", "memory://{}"])
def test_captures_come_from_the_file(form: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framelift.config, "cache_url", form.format(address))
    assert counted(twice, torch.ones(3))[1:] == (1, 0)
    as_in_a_new_process(tmp_path)
    assert counted(twice, torch.ones(3))[1:] == (0, 1)


def test_nothing_is_written_where_everything_is_there(address: str, tmp_path: Path) -> None:
    counted(twice, torch.ones(3))
    as_in_a_new_process(tmp_path)
    before = os.stat(address).st_mtime_ns
    assert counted(twice, torch.ones(3))[1:] == (0, 1)
    as_in_a_new_process(tmp_path)
    assert os.stat(address).st_mtime_ns == before


@pytest.mark.parametrize("what", ["damaged", "cut off", "another key", "empty", "a folder"])
def test_what_is_not_the_users_holds_nothing(what: str, address: str, tmp_path: Path) -> None:
    counted(twice, torch.ones(3))
    as_in_a_new_process(tmp_path)
    content = Path(address).read_bytes()
    if what == "another key":
        (tmp_path / "key").write_bytes(os.urandom(32))
    elif what == "a folder":
        os.unlink(address)
        os.mkdir(address)
    else:
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        Path(address).write_bytes({"damaged": changed, "cut off": content[:-1], "empty": b""}[what])
    shared_file._read.clear()
    result, *counts = counted(twice, torch.ones(3))
    assert torch.equal(result, torch.full((3,), 2.0)) and counts == [1, 0]


def test_a_folder_that_cannot_be_written_to_is_enough(address: str, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("no folder")
    assert counted(twice, torch.ones(3))[1:] == (1, 0) and framelift.stats()["not_kept"] == {}
    shared_file.save()
    shared_file._read.clear()
    assert counted(twice, torch.ones(3))[1:] == (0, 1)


def _write(address: str, key: str, number: int) -> None:
    framelift.config.cache_url, framelift.config.cache_key = address, key
    for part in range(20):
        shared_file.add(f"part {number} {part}", b"x" * 1000)
        shared_file.save()


def test_many_writers_lose_nothing(address: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(address, str(tmp_path / "key"), i)) for i in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)
    assert len(shared_file.names_of("part ")) == 80
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_there_is_a_bound(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framelift.config, "cache_size", 1)
    for name in ("old", "new"):
        shared_file.add(name, os.urandom(700_000))
        shared_file.save()
        shared_file._read.clear()
    assert shared_file.names_of("") == ["new"]


# ---- compiled in one place, run in another


def _in_a_container(folder: Path, environment: dict[str, str]) -> list[str]:
    """The command: a namespace with a read-only home and another user, and no compiler in PATH."""
    pairs = [f"{name}={value}" for name, value in environment.items()]
    command = ["unshare", "-U", "--map-user=1234", "--map-group=1234", "env", "-i", *pairs, sys.executable, "app.py"]
    mounts = f"mount -t tmpfs -o ro none {folder}/home && mount -t tmpfs -o mode=1777 none {folder}/tmp"
    way = "-m" if os.geteuid() == 0 else "-rm"
    return ["unshare", way, "sh", "-c", f'{mounts} && cd "{folder}/moved/app" && exec "$@"', "sh", *command]


@pytest.mark.slow
def test_a_container_compiles_nothing(tmp_path: Path) -> None:
    for name in ("build", "moved/app", "home", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    text = PROGRAM.read_text()
    (tmp_path / "build" / "app.py").write_text(text)
    (tmp_path / "moved" / "app" / "app.py").write_text("# it lies in another folder, at other lines\n" + text)
    (tmp_path / "key").write_bytes(os.urandom(32))
    shared = {
        "PYTHONPATH": str(SOURCE),
        "OMP_NUM_THREADS": "1",
        "FRAMELIFT_CACHE_URL": str(tmp_path / "app.kept"),
        "FRAMELIFT_CACHE_KEY": str(tmp_path / "key"),
    }
    there = {
        **shared,
        "PATH": "/nowhere",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "WORKERS": "2",
    }
    try:
        probe = _in_a_container(tmp_path, there)
        probe[probe.index(sys.executable) :] = ["/bin/true"]
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no namespace of its own here: {error}")
    build = {**shared, "PATH": os.environ["PATH"], "HOME": str(tmp_path / "build")}
    build["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "inductor")
    (made,) = _rows(subprocess.run([sys.executable, "app.py"], cwd=tmp_path / "build", env=build, **_OUTPUT))
    assert made["captures"] == 1 and made["compiler"] and made["not_kept"] == {}
    rows = _rows(subprocess.run(_in_a_container(tmp_path, there), **_OUTPUT))
    assert len(rows) == 3
    for number, row in enumerate(rows):
        assert row["same"] and row["captures"] == 0 and row["loaded"] == (2 if number else 1), row
        assert not row["compiler"] and row["fallbacks"] == {}, row


_OUTPUT: Any = {"stdout": subprocess.PIPE, "text": True, "timeout": 300, "check": True}


def _rows(done: Any) -> Any:
    return json.loads(done.stdout.splitlines()[-1])

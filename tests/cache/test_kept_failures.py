"""Nothing that the cache on disk does ends a call or makes it run eagerly: it is said once."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from kept_support import check, counted

HUGE = 1 << 20000
DEEP: Any = ()
for _ in range(600):
    DEEP = (DEEP,)
LONE, PAIR = "\ud800", "\ud83d\ude00"
NAMES = {LONE: 3, PAIR: 4}


@pytest.fixture(autouse=True)
def said(tmp_path: Path) -> Iterator[list[str]]:
    """The warnings about the cache."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("framelift.cache").addHandler(handler)
    with config.patch(cache=True, cache_dir=str(tmp_path / "kept")):
        yield found
    logging.getLogger("framelift.cache").removeHandler(handler)


def scaled(x: torch.Tensor, by: Any = 2) -> Any:
    return x * 2, by


VALUES = [HUGE, -HUGE, (1, HUGE), frozenset([HUGE]), range(HUGE), slice(HUGE), LONE, PAIR, (LONE,)]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_values_that_json_has_no_form_for_are_kept(number: int, said: list[str]) -> None:
    value = VALUES[number]
    for loaded in (False, True):
        result, captures, found = counted(scaled, torch.ones(2), value)
        assert (captures, found) == ((0, 1) if loaded else (1, 0)), framelift.stats()["not_kept"]
        assert result[1] == value and type(result[1]) is type(value)
    other = {LONE: "\ud801", PAIR: "\U0001f600"}.get(value, 2) if type(value) is str else 2
    assert counted(scaled, torch.ones(2), other)[1:] == (1, 0)
    assert not said


def test_names_that_are_no_text() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * NAMES[LONE], NAMES[PAIR], [*NAMES]

    check(program, torch.ones(2), loaded=False)
    check(program, torch.ones(2), loaded=True)
    NAMES["\U0001f600"] = NAMES.pop(PAIR)
    try:
        with pytest.raises(KeyError):
            counted(program, torch.ones(2))
    finally:
        NAMES[PAIR] = NAMES.pop("\U0001f600")


def test_a_container_that_is_too_deep_for_json(said: list[str]) -> None:
    for _ in range(2):
        result, captures, _ = counted(lambda x: (x * 2, DEEP), torch.ones(2))
        assert result[1] is DEEP and captures == 1
    assert len(said) <= 2


def _as_directory(folder: Path) -> None:
    (folder / "key").mkdir(parents=True)


def _as_pipe(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "key")


def _for_others(folder: Path) -> None:
    folder.mkdir()
    (folder / "key").write_bytes(b"k" * 32)
    (folder / "key").chmod(0o644)


def _cut_off(folder: Path) -> None:
    folder.mkdir()
    folder.joinpath("key").symlink_to(folder / "nowhere")


def _as_file(folder: Path) -> None:
    folder.write_text("a file")


def _below_a_file(folder: Path) -> None:
    folder.parent.joinpath("file").write_text("a file")
    config.cache_dir = str(folder.parent / "file" / "below")


def _with_files_for_folders(folder: Path) -> None:
    folder.mkdir()
    for number in range(256):
        (folder / f"{number:02x}").write_text("a file")


def _with_a_long_name(folder: Path) -> None:
    config.cache_dir = str(folder / ("n" * 300))


def _with_a_null(folder: Path) -> None:
    config.cache_dir = str(folder) + "\0"


def _with_no_text(folder: Path) -> None:
    config.cache_dir = str(folder) + "\ud83d"


BROKEN = (
    _as_directory,
    _as_pipe,
    _for_others,
    _cut_off,
    _as_file,
    _below_a_file,
    _with_files_for_folders,
    _with_a_long_name,
    _with_a_null,
    _with_no_text,
)


@pytest.mark.parametrize("damage", BROKEN)
def test_a_folder_that_cannot_be_used(damage: Callable[[Path], None], tmp_path: Path, said: list[str]) -> None:
    damage(tmp_path / "kept")
    _check_without_keeping(said)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "kept").mkdir(mode=0o500)
    _check_without_keeping(said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
def test_no_file_may_grow(tmp_path: Path, said: list[str]) -> None:
    """As on a full disk: what is written is cut off, and an error."""
    counted(lambda x: x + 1, torch.ones(2))  # the key is there
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        _check_without_keeping(said)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.name.endswith(".part")]
    check(scaled, torch.ones(2), loaded=False)
    check(scaled, torch.ones(2), loaded=True)


def test_no_descriptor_is_left(tmp_path: Path, said: list[str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    counted(scaled, torch.ones(2))
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors - 1, hard))
    try:
        result = framelift.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.tolist() == [3.0, 3.0]


def _check_without_keeping(said: list[str]) -> None:
    """Each call is captured and right; nothing is left open, and there is one warning."""
    before = _descriptors()
    for by in (2, 3, 4):
        result, captures, found = counted(scaled, torch.ones(2), by)
        assert result[1] == by and (captures, found) == (1, 0)
    assert _descriptors() <= before
    assert len(set(said)) == len(said) <= 2, said


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0

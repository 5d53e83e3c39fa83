"""Files below a folder, by their places in it: read, written, listed and removed without following a link.

A place is a relative name with slashes.  It never leads out of the folder: names like `..` and links are refused, in
the middle of a place too.  A folder may be one that others can write to, so each file is opened once: what is checked
is what was read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator

from .refusals import NotMine

_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,255}")
#: temporary files, which nobody else calls so
_PART = re.compile(r"framelift-[0-9a-f]{16}\.part")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: a pipe would be waited for
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def cache_folder(chosen: str | None) -> str:
    """Return the folder of what framelift keeps: the one that was chosen, or the user's own."""
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "framelift")


def is_place(text: str) -> bool:
    """Return whether a text names something below a folder, by names that framelift or Inductor gives to files."""
    return all(map(_NAME.fullmatch, text.split("/")))


@contextlib.contextmanager
def parent_of(folder: str, place: str, make: bool = False, own: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that holds a place below `folder`, as a descriptor, and the name of the place in it.

    `make`: make missing folders.  `own`: raise `NotMine` where a folder on the way may be written to by another user.
    """
    if not is_place(place):
        raise NotMine(f"{place!r} is no place below a folder")
    *steps, name = place.split("/")
    if make:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(folder, _FOLDER)
    try:
        for step in steps:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o700, dir_fd=descriptor)
            if own and not is_own(os.fstat(descriptor)):
                raise NotMine(f"others may write to a folder on the way from {folder} to {place}")
            below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        if own and not is_own(os.fstat(descriptor)):
            raise NotMine(f"others may write to the folder of {place} in {folder}")
        yield descriptor, name
    finally:
        os.close(descriptor)


def is_own(facts: os.stat_result) -> bool:
    """Return whether nobody but the user, groups that the user lets write, and the system's administrator can change a
    file or the entries of a folder.  In a sticky folder others may only add entries.
    """
    closed = not facts.st_mode & stat.S_IWOTH or stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
    return bool(closed) and facts.st_uid in (0, os.geteuid())


def read_below(
    folder: str, place: str, most: int, own: bool = False, accepts: Callable[[os.stat_result], bool] | None = None
) -> bytes:
    """The content of a file; raises `NotMine` for what is no plain file, is larger than `most` bytes, is not accepted,
    or, with `own`, may have been written by another user.
    """
    with parent_of(folder, place, own=own) as (parent, name):
        descriptor = os.open(name, _FILE, dir_fd=parent)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
            raise NotMine("it is no file, or too large")
        if own and not is_own(facts) or accepts is not None and not accepts(facts):
            raise NotMine(f"others may read or write {place} in {folder}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def write_below(folder: str, place: str, content: bytes, mode: int = 0o600) -> None:
    """Write a file at once: another process sees the old one or the new one."""
    with parent_of(folder, place, make=True) as (parent, name):
        replace_in(parent, name, content, mode)


def replace_in(parent: int, name: str, content: bytes, mode: int, sync: bool = False) -> None:
    """Write a file in a folder, given as a descriptor, at once; `sync`: and on the disk."""
    part = f"framelift-{secrets.token_hex(8)}.part"
    descriptor = os.open(part, _NEW, mode, dir_fd=parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(part, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=parent)
        raise


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """In this block, no other process is in such a block for this folder."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(folder, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def names_below(
    folder: str, place: str, kind: re.Pattern[str], folders: bool = False
) -> list[tuple[str, os.stat_result]]:
    """The plain files (or the folders) at a place whose names are of a kind, with what the file system says of them."""
    found = []
    with contextlib.suppress(OSError, NotMine), parent_of(folder, f"{place}/x" if place else "x") as (parent, _):
        with os.scandir(parent) as entries:
            for one in entries:
                if kind.fullmatch(one.name) is None:
                    continue
                if one.is_dir(follow_symlinks=False) if folders else one.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):  # another process removed it
                        found.append((one.name, one.stat(follow_symlinks=False)))
    return found


def remove_below(folder: str, place: str, begins: bytes = b"") -> None:
    """Remove a file that begins with these bytes."""
    with contextlib.suppress(OSError, NotMine), parent_of(folder, place) as (parent, name):
        if begins:
            descriptor = os.open(name, _FILE, dir_fd=parent)
            try:
                if os.read(descriptor, len(begins)) != begins:
                    return
            finally:
                os.close(descriptor)
        os.unlink(name, dir_fd=parent)


def remove_parts(folder: str, place: str, before: float) -> None:
    """Remove the temporary files at a place that a process left behind before some time."""
    for name, facts in names_below(folder, place, _PART):
        if facts.st_mtime < before:
            remove_below(folder, f"{place}/{name}" if place else name)

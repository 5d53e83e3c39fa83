"""Sealed files: each carries an HMAC of its name and its content, made with the user's key.

A file is a line with the format, a line with the HMAC, and the content.  The key is a file in the folder of kept
captures, readable by its owner alone; a key that others may read, or that is another user's, is not used.  A file that
is damaged, cut off, moved, or sealed with another key is not the user's, and reading one runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from typing import Any

from .. import config
from ..vocabulary.log import topic
from .files_below import cache_folder, parent_of, read_below, write_below
from .refusals import NotMine

_HEAD = b"framelift sealed 1\n"
_DIGITS = 64  # of the HMAC
_SECRET = 32  # bytes of the user's key
_MOST = 1 << 28  # bytes of one file


def folder_of_key() -> str:
    """The folder of the user's key: the user's own cache folder, or the one that was chosen."""
    return cache_folder(config.cache_dir)


_distrusted: set[str] = set()  # folders about whose keys that was said


def user_key(make: bool) -> bytes | None:
    """The user's key; None where there is none that can be trusted.  `make`: make a missing one."""
    try:
        found = _read_key()
        if found is None and make:
            _make_key()
            found = _read_key()
        return found
    except NotMine as error:
        if folder_of_key() not in _distrusted:
            _distrusted.add(folder_of_key())
            topic("cache").warning("captures are not kept: the key in %s: %s", folder_of_key(), error)
    except OSError as error:
        topic("cache").info("captures are not kept: the key cannot be read or made: %s", error)
    return None


def _read_key() -> bytes | None:
    """The key; None where there is none, or it was cut off."""
    try:
        found = read_below(folder_of_key(), "key", _MOST, accepts=_is_the_users_alone)
    except FileNotFoundError:
        return None
    return found if len(found) == _SECRET else None


def _is_the_users_alone(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o077


def _make_key() -> None:
    with parent_of(folder_of_key(), "key", make=True) as (parent, name):
        part = f"framelift-{secrets.token_hex(8)}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET))
            try:
                os.link(part, name, src_dir_fd=parent, dst_dir_fd=parent)
            except FileExistsError:  # another process was first; or one that is cut off
                if os.stat(name, dir_fd=parent, follow_symlinks=False).st_size < _SECRET:
                    os.replace(part, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=parent)


def mac(secret: bytes, name: str, content: bytes) -> bytes:
    """Of the name as well as of the content: a file that was moved to another place is another one."""
    made = hmac.new(secret, _HEAD + name.encode() + b"\n", hashlib.sha256)
    made.update(content)
    return made.hexdigest().encode()


def read_sealed(folder: str, place: str, name: str) -> bytes:
    """The content of a file that was sealed under a name; raises `NotMine` or `OSError`."""
    secret = user_key(make=False)
    if secret is None:
        raise NotMine("there is no key of the user")
    found = read_below(folder, place, _MOST)
    start = len(_HEAD) + _DIGITS + 1
    if not found.startswith(_HEAD) or found[start - 1 : start] != b"\n":
        raise NotMine("it is no file of this format")
    content = found[start:]
    if not hmac.compare_digest(found[len(_HEAD) : start - 1], mac(secret, name, content)):
        raise NotMine("it is damaged, or was written with another key")
    return content


def write_sealed(folder: str, place: str, name: str, content: bytes, make: bool = True) -> bool:
    """Seal a file under a name; False where there is no key.  `make`: make a missing key."""
    secret = user_key(make)
    if secret is None or len(content) > _MOST - len(_HEAD) - _DIGITS - 1:
        return False
    write_below(folder, place, _HEAD + mac(secret, name, content) + b"\n" + content)
    return True


# ---- notes for all processes of the user


def read_note(name: str) -> Any:
    """Return the note of a name; None where there is none, or it is not the user's."""
    try:
        return json.loads(read_sealed(folder_of_key(), f"{name}.note", f"note {name}"))
    except (OSError, ValueError, RecursionError, NotMine) as error:
        topic("cache").debug("no note: %s: %s", name, error)
        return None


def write_note(name: str, data: Any) -> None:
    """Note something that costs time to find out; in a new folder only where captures are kept."""
    try:
        write_sealed(folder_of_key(), f"{name}.note", f"note {name}", json.dumps(data).encode(), bool(config.cache))
    except OSError as error:
        topic("cache").info("a note is not kept: %s", error)

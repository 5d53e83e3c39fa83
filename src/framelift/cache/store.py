"""The files of kept captures: a folder for each key, a file for each capture, authenticated and written at once.

A file is a line with the format, a line with an HMAC of the rest, and JSON.  The key of the HMAC is a file in the
folder itself, readable by its owner alone; a key that others may read, or that is another user's, is not used.  A file
that is damaged, cut off, or written with another key is a miss.  Reading a file runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from typing import Any

from .. import config
from ..vocabulary.log import topic
from .refusals import NotMine

__all__ = [
    "FORMAT",
    "folder",
    "forget",
    "is_key",
    "content_of",
    "place_of",
    "read_note",
    "records",
    "text_of",
    "used",
    "user_key",
    "write",
    "write_note",
    "write_text",
]

#: how records are written; to be raised when that changes
FORMAT = "framelift capture 8"
_HEAD = FORMAT.encode() + b"\n"
_DIGITS = 64  # of the HMAC
_SECRET = 32  # bytes of the user's key
_MOST_PER_KEY = 16  # captures of one function
_MOST_BYTES = 1 << 28  # of one file
_SUFFIX = ".capture"
#: a link leads elsewhere, and a pipe would be waited for
_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def folder() -> str:
    """Where captures are kept: by default beside what Inductor keeps, where the user or a test has moved that."""
    beside = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if beside and not config.cache_dir:
        return os.path.join(os.path.abspath(beside), "framelift")
    return _folder_of_key()


def _folder_of_key() -> str:
    chosen = config.cache_dir
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "framelift")


def _place(key: str) -> str:
    return os.path.join(folder(), key[:2], key)


# ---- the user's key


def user_key(make: bool) -> bytes | None:
    """The user's key, with which files are authenticated; None where there is none that can be trusted."""
    try:
        return _secret(make)
    except OSError:
        return None


def _secret(make: bool) -> bytes | None:
    """The key of the HMAC; None where there is none that can be trusted."""
    path = os.path.join(_folder_of_key(), "key")
    found = _read_secret(path)
    if found is not None or not make:
        return found
    os.makedirs(_folder_of_key(), mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=_folder_of_key())  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET))
        try:
            os.link(temporary, path)
        except FileExistsError:  # another process was first; or one that is cut off
            if os.path.isfile(path) and os.path.getsize(path) < _SECRET:
                os.replace(temporary, path)
    finally:
        forget(temporary)
    return _read_secret(path)


_distrusted: set[str] = set()  # keys about which that was said


def _read_secret(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, _READING)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        own = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
        if not stat.S_ISREG(facts.st_mode) or not own or stat.S_IMODE(facts.st_mode) & 0o077:
            if path not in _distrusted:
                _distrusted.add(path)
                topic("cache").warning("captures are not kept: the key %s is not the user's alone", path)
            return None
        found = os.read(descriptor, 2 * _SECRET)
    finally:
        os.close(descriptor)
    return found if len(found) == _SECRET else None


def _mac(secret: bytes, key: str, payload: bytes) -> bytes:
    """Of the place as well as of the content: a file that was moved to another place is another one."""
    made = hmac.new(secret, _HEAD + key.encode() + b"\n", hashlib.sha256)
    made.update(payload)
    return made.hexdigest().encode()


# ---- reading


def records(key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a key, those used last first: path and data."""
    secret = _secret(make=False)
    if secret is None:
        return
    for path in _newest(_place(key)):
        data = _read(path, key, secret)
        if data is not None:
            yield path, data


def _newest(place: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for one in entries:
            if one.name.endswith(_SUFFIX) and one.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another process removed it
                    found.append((one.stat(follow_symlinks=False).st_mtime_ns, one.path))
    return [path for _, path in sorted(found, reverse=True)]


def _read(path: str, key: str, secret: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(_payload(path, key, secret))
        if type(data) is not dict:
            raise NotMine("it is no record")
    except (OSError, ValueError, RecursionError, NotMine) as error:
        topic("cache").info("a kept capture is not used: %s: %s", path, error)
        return None
    return data


def _payload(path: str, key: str, secret: bytes) -> bytes:
    """The content of an authenticated file; raises `NotMine`."""
    with open(os.open(path, _READING), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
            raise NotMine("it is no file, or too large")
        content = file.read(_MOST_BYTES)
    start = len(_HEAD) + _DIGITS + 1
    if not content.startswith(_HEAD) or content[start - 1 : start] != b"\n":
        raise NotMine("it is no capture of this format")
    payload = content[start:]
    if not hmac.compare_digest(content[len(_HEAD) : start - 1], _mac(secret, key, payload)):
        raise NotMine("it is damaged, or was written with another key")
    return payload


def is_key(key: str) -> bool:
    """Whether this is a key of records, and no path to somewhere else."""
    return re.fullmatch("[0-9a-f]{40}", key) is not None


def place_of(path: str) -> str:
    """The key and the file name of a record."""
    return "/".join(path.split(os.sep)[-2:])


def content_of(place: str) -> bytes | None:
    """The content of the record at such a place; None where there is none, or it is not authentic."""
    key, _, name = place.partition("/")
    secret = _secret(make=False)
    try:
        return None if secret is None else _payload(os.path.join(_place(key), name), key, secret)
    except (OSError, NotMine):
        return None


def used(path: str) -> None:
    """A record was used: it goes last."""
    with contextlib.suppress(OSError):
        os.utime(path)


def forget(path: str) -> None:
    """A record is of no use."""
    with contextlib.suppress(OSError):
        os.unlink(path)


# ---- writing


def write(key: str, data: dict[str, Any]) -> str | None:
    """Keep a record: its path, or None where that is not possible."""
    return write_text(key, text_of(data))


def text_of(data: dict[str, Any]) -> str:
    """A record as it is written."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def write_text(key: str, text: str) -> str | None:
    """As `write`."""
    payload = text.encode()
    try:
        secret = _secret(make=True)
        if secret is None or len(payload) > _MOST_BYTES:
            return None
        place = _place(key)
        os.makedirs(place, mode=0o700, exist_ok=True)
        path = os.path.join(place, hashlib.sha256(payload).hexdigest()[:32] + _SUFFIX)
        _write_at_once(path, _HEAD + _mac(secret, key, payload) + b"\n" + payload)
        for old in _newest(place)[_MOST_PER_KEY:]:
            forget(old)
        _bound_all()
    except OSError as error:
        topic("cache").info("a capture is not kept: %s", error)
        return None
    return path


def _write_at_once(path: str, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".part")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        forget(temporary)
        raise


# ---- notes


def _note(name: str) -> tuple[str, str]:
    """The file of a note, and what stands for a key where it is authenticated."""
    return os.path.join(_folder_of_key(), f"{name}.note"), f"note {name}"


def read_note(name: str) -> Any:
    """What was noted for all processes under a name; None where there is nothing, or it is not authentic."""
    path, key = _note(name)
    try:
        secret = _secret(make=False)
        return None if secret is None else json.loads(_payload(path, key, secret))
    except (OSError, ValueError, RecursionError, NotMine) as error:
        topic("cache").debug("no note: %s: %s", path, error)
        return None


def write_note(name: str, data: Any) -> None:
    """Note something that costs time to find out; in a new folder only where captures are kept."""
    path, key = _note(name)
    try:
        secret = _secret(make=bool(config.cache))
        if secret is not None:
            payload = json.dumps(data).encode()
            _write_at_once(path, _HEAD + _mac(secret, key, payload) + b"\n" + payload)
    except OSError as error:
        topic("cache").info("a note is not kept: %s", error)


_since_bounded = 0
_OFTEN = 32  # writes between two looks at the whole folder


def _bound_all() -> None:
    """Remove what was not used for longest, where all files together are too large; and what dead processes left."""
    global _since_bounded
    _since_bounded += 1
    if _since_bounded % _OFTEN != 1:
        return
    found = []
    newest = 0
    for place, _, names in os.walk(folder()):
        for name in names:
            if name.endswith((_SUFFIX, ".part")):
                path = os.path.join(place, name)
                with contextlib.suppress(OSError):
                    facts = os.stat(path)
                    newest = max(newest, facts.st_mtime_ns)
                    found.append((facts.st_mtime_ns, facts.st_size, path))
    left = sum(size for _, size, _ in found)
    most = config.cache_size << 20
    for time, size, path in sorted(found):
        is_left_behind = path.endswith(".part") and newest - time > 3600 * 10**9
        if left > most or is_left_behind:
            forget(path)
            left -= size

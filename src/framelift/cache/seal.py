"""The user's key, and the seal that it makes: an HMAC of a name and a content.

The key is a file in the folder of kept captures, readable by its owner alone; a key that others may read, or that is
another user's, is not used.  `config.cache_key` names another file, whoever owns it.  What is sealed is a line with the
format, a line with the HMAC, and the content.  What is damaged, cut off, moved, or sealed with another key is not the
user's, and opening it runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat

from .. import config
from .files_below import cache_folder, parent_of, read_below
from .refusals import NotMine

_HEAD = b"framelift sealed 1\n"
_DIGITS = 64  # of the HMAC
_SECRET = 32  # bytes of the user's key
MOST = 1 << 28  # bytes of one file


def folder_of_key() -> str:
    """The folder of the user's key: the user's own cache folder, or the one that was chosen."""
    return cache_folder(config.cache_dir)


def user_key(make: bool) -> bytes:
    """The user's key; raises `NotMine` or `OSError` where there is none to be trusted.  `make`: make a missing one."""
    if config.cache_key:
        return _named_key(config.cache_key)
    found = _read_key()
    if found is None and make:
        _make_key()
        found = _read_key()
    if found is None:
        raise NotMine("there is no key of the user")
    return found


def _named_key(path: str) -> bytes:
    with open(path, "rb") as file:
        found = file.read(MOST)
    if len(found) < _SECRET:
        raise NotMine(f"{path} has {len(found)} bytes, a key has at least {_SECRET}")
    return found


def _read_key() -> bytes | None:
    """The key; None where there is none, or it was cut off."""
    try:
        found = read_below(folder_of_key(), "key", MOST, accepts=_is_the_users_alone)
    except FileNotFoundError:
        return None
    if len(found) > _SECRET:
        raise NotMine(f"{os.path.join(folder_of_key(), 'key')} is no key of framelift's; remove it, and one is made")
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


def sealed(name: str, content: bytes, make: bool) -> bytes:
    """A content sealed under a name; raises `NotMine` where there is no key.  `make`: make a missing key."""
    secret = user_key(make)
    if len(content) > MOST - len(_HEAD) - _DIGITS - 1:
        raise NotMine(f"it has {len(content)} bytes, more than one file may")
    return _HEAD + mac(secret, name, content) + b"\n" + content


def opened(name: str, found: bytes) -> bytes:
    """The content of what was sealed under a name; raises `NotMine`."""
    secret = user_key(make=False)
    start = len(_HEAD) + _DIGITS + 1
    if not found.startswith(_HEAD) or found[start - 1 : start] != b"\n":
        raise NotMine("it is no file of this format")
    content = found[start:]
    if not hmac.compare_digest(found[len(_HEAD) : start - 1], mac(secret, name, content)):
        raise NotMine("it is damaged, or was written with another key")
    return content

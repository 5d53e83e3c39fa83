"""The files of kept captures: a folder for each key, a sealed file for each capture (sealed_files.py).

Nothing else in the folder is read or removed: a file counts where a capture of its key would be, by the name of one.
A file that is not the user's is a miss.  Reading a file runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from .. import config
from ..vocabulary.log import topic
from . import shared_file
from .files_below import names_below, remove_below, remove_parts
from .refusals import NotMine
from .seal import folder_of_key
from .sealed_files import read_sealed, write_sealed

#: how records are written; to be raised when that changes
FORMAT = "framelift capture 9"
_MOST_PER_KEY = 16  # captures of one function
_KEY = re.compile("[0-9a-f]{40}")
_GROUP = re.compile("[0-9a-f]{2}")  # keys that begin alike
#: the endings of files: a process that starts asks captures for fixed sizes first, as the one did that made them
_ENDINGS = (".capture", ".symbolic", ".general")
_NAME = re.compile(r"[0-9a-f]{32}\.(?:capture|symbolic|general)")
_LEFT_BEHIND = 3600  # seconds after which the temporary file of a writer is a dead one's
#: how the folder begins that Inductor chooses where nobody has: it sets the variable to that when it starts
_INDUCTORS = os.path.join(tempfile.gettempdir(), "torchinductor_")


def folder() -> str:
    """Where captures are kept: by default beside what Inductor keeps, where the user or a test has moved that."""
    beside = os.path.abspath(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or _INDUCTORS)
    if not beside.startswith(_INDUCTORS) and not config.cache_dir:
        return os.path.join(beside, "framelift")
    return folder_of_key()


def _place(key: str) -> str:
    return f"{key[:2]}/{key}"


# ---- reading


def records(key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a key, those used last first of those for fixed sizes, then of others: path and data."""
    for name in sorted(
        dict.fromkeys([*_shared(key), *_newest(key)]), key=lambda name: _ENDINGS.index(name[name.index(".") :])
    ):
        path = os.path.join(folder(), _place(key), name)
        try:
            data = json.loads(_content(key, name))
            if type(data) is not dict:
                raise NotMine("it is no record")
        except (OSError, ValueError, RecursionError, NotMine) as error:
            topic("cache").info("a kept capture is not used: %s: %s", path, error)
            continue
        yield path, data


def _newest(key: str) -> list[str]:
    """The names of a key's captures, those used last first."""
    found = [(facts.st_mtime_ns, name) for name, facts in names_below(folder(), _place(key), _NAME)]
    return [name for _, name in sorted(found, reverse=True)]


def _shared(key: str) -> list[str]:
    """The names of a key's captures in the file that is shared."""
    names = [name.partition("/")[2] for name in shared_file.names_of(f"capture {key}/")]
    return [name for name in names if _NAME.fullmatch(name)]


def _content(key: str, name: str) -> bytes:
    return read_sealed(folder(), f"{_place(key)}/{name}", f"capture {key}")


def is_key(key: str) -> bool:
    """Return whether this is a key of records, and no path to somewhere else."""
    return _KEY.fullmatch(key) is not None


def place_of(path: str) -> str:
    """The key and the file name of a record."""
    return "/".join(path.split(os.sep)[-2:])


def content_of(place: str) -> bytes | None:
    """The content of the record at such a place; None where there is none, or it is not the user's."""
    key, _, name = place.partition("/")
    try:
        return _content(key, name) if is_key(key) and _NAME.fullmatch(name) else None
    except (OSError, NotMine):
        return None


def used(path: str) -> None:
    """A record was used: it goes last."""
    with contextlib.suppress(OSError):
        os.utime(path, follow_symlinks=False)


def forget(key: str, name: str) -> None:
    """Remove a capture, of whatever version."""
    remove_below(folder(), f"{_place(key)}/{name}", b"framelift ")


# ---- writing


def write(key: str, data: dict[str, Any]) -> str:
    """Keep a record and return its path; raises `OSError` or `NotMine` where that is not possible."""
    return write_text(key, data, text_of(data))


def text_of(data: dict[str, Any]) -> str:
    """A record as it is written."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def write_text(key: str, data: dict[str, Any], text: str) -> str:
    """Keep a record of which there is the text already."""
    content = text.encode()
    name = hashlib.sha256(content).hexdigest()[:32] + _ending(data)
    write_sealed(folder(), f"{_place(key)}/{name}", f"capture {key}", content)
    for old in _newest(key)[_MOST_PER_KEY:]:
        forget(key, old)
    _bound_all()
    return os.path.join(folder(), _place(key), name)


def _ending(data: dict[str, Any]) -> str:
    rest = data.get("rest")
    if type(rest) is dict and rest.get("general"):
        return ".general"
    return ".capture" if data.get("lines") is None else ".symbolic"


_since_bounded = 0
_OFTEN = 32  # writes between two looks at the whole folder


def _bound_all() -> None:
    """Remove what was not used for longest, where all captures together are too large; and what dead processes left.

    Only captures are removed, and temporary files of ours: whatever else a user keeps in the folder stays.
    """
    global _since_bounded
    _since_bounded += 1
    if _since_bounded % _OFTEN != 1:
        return
    places = [group for group, _ in names_below(folder(), "", _GROUP, folders=True)]
    keys = [key for group in places for key, _ in names_below(folder(), group, _KEY, folders=True) if key[:2] == group]
    found = [
        (facts.st_mtime, facts.st_size, key, name)
        for key in keys
        for name, facts in names_below(folder(), _place(key), _NAME)
    ]
    newest = max((time for time, *_ in found), default=0.0)
    for place in ("", *places, *map(_place, keys)):
        remove_parts(folder(), place, newest - _LEFT_BEHIND)
    left = sum(size for _, size, *_ in found)
    for _, size, key, name in sorted(found):
        if left <= config.cache_size << 20:
            break
        forget(key, name)
        left -= size

"""One file with all that a start needs: captures, notes, and what Inductor compiled; sealed as a whole (seal.py).

`config.cache_url` is its path, or an address that fsspec opens.  It is read once in a process, and when a process ends,
what it made or used is added to what is there then.  A file that cannot be read, or is not the user's, holds nothing;
one that cannot be written stays as it is.  Writers of a local file wait for each other; in an object store the last one
wins, and what another one wrote meanwhile is made again.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from .. import config
from ..vocabulary.log import topic
from .files_below import alone_in, write_below
from .refusals import NotMine
from .seal import opened, sealed

_NAME = "shared file"
_read: dict[str, dict[str, bytes]] = {}  # address -> parts by their names
_used: dict[str, dict[str, bytes]] = {}  # as `_read`: what this process made or used


def part(name: str) -> bytes | None:
    """The content of a part; None where there is none."""
    return _known(config.cache_url).get(name) if config.cache_url else None


def names_of(prefix: str) -> list[str]:
    """The names of all parts that begin so."""
    return [name for name in _known(config.cache_url) if name.startswith(prefix)] if config.cache_url else []


def add(name: str, content: bytes) -> None:
    """A part was made or used: when this process has ended it is in the file."""
    if config.cache_url:
        _used.setdefault(config.cache_url, {})[name] = content


def _known(url: str) -> dict[str, bytes]:
    if url not in _read:
        _read[url] = _there(url)
    return _read[url]


def _there(url: str) -> dict[str, bytes]:
    try:
        with _open(url, "rb") as file:
            return _parts(opened(_NAME, file.read()))
    except FileNotFoundError:
        topic("cache").info("nothing is at %s yet", url)
    except Exception as error:  # noqa: BLE001  a file system of fsspec's may raise anything
        topic("cache").warning("%s is not used: %s: %s", url, type(error).__name__, error)
    return {}


def _parts(content: bytes) -> dict[str, bytes]:
    head, _, rest = content.partition(b"\n")
    found, place = {}, 0
    for name, length in json.loads(head):
        found[name], place = rest[place : place + length], place + length
    if place != len(rest):
        raise NotMine("its parts have other lengths")
    return found


def _path(url: str) -> str | None:
    """The path of a local file; None for another address."""
    path = url.removeprefix("file://")
    return None if "://" in path else os.path.abspath(os.path.expanduser(path))


def _open(url: str, mode: str) -> Any:
    path = _path(url)
    if path is not None:
        return open(path, mode)
    import fsspec

    return fsspec.open(url, mode)


# ---- writing


@atexit.register
def save() -> None:
    """Add what this process made or used."""
    for url, parts in [*_used.items()]:
        try:
            if any(_known(url).get(name) != content for name, content in parts.items()):
                with _alone(url):
                    _write(url, _with_room({**parts, **_there(url), **parts}))
        except Exception as error:  # noqa: BLE001  as above; who may only read need not write
            topic("cache").info("%s is not written: %s: %s", url, type(error).__name__, error)
        _used.pop(url, None)


def _with_room(parts: dict[str, bytes]) -> dict[str, bytes]:
    """Those parts for which there is room; the first ones are those of this process."""
    left, found = config.cache_size << 20, {}
    for name, content in parts.items():
        left -= len(content)
        if left >= 0:
            found[name] = content
    return found


@contextlib.contextmanager
def _alone(url: str) -> Iterator[None]:
    path = _path(url)
    with contextlib.nullcontext() if path is None else alone_in(os.path.dirname(path)):
        yield


def _write(url: str, parts: dict[str, bytes]) -> None:
    head = json.dumps([[name, len(content)] for name, content in parts.items()]).encode()
    content = sealed(_NAME, b"".join([head, b"\n", *parts.values()]), make=True)
    path = _path(url)
    if path is not None:
        write_below(os.path.dirname(path), os.path.basename(path), content, 0o666)
        return
    with _open(url, "wb") as file:
        file.write(content)

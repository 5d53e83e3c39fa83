"""Sealed files (seal.py), in a folder or in the one file that `config.cache_url` names (shared_file.py)."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import config
from ..vocabulary.log import topic
from . import shared_file
from .files_below import read_below, write_below
from .refusals import NotMine
from .seal import MOST, folder_of_key, opened, sealed


def _part(place: str, name: str) -> str:
    return f"{name}/{os.path.basename(place)}"


def read_sealed(folder: str, place: str, name: str) -> bytes:
    """The content of a file that was sealed under a name; raises `NotMine` or `OSError`."""
    found = shared_file.part(_part(place, name))
    if found is None:
        found = opened(name, read_below(folder, place, MOST))
    shared_file.add(_part(place, name), found)
    return found


def write_sealed(folder: str, place: str, name: str, content: bytes, make: bool = True) -> None:
    """Seal a file under a name; raises `NotMine` where there is no key.  `make`: make a missing key."""
    found = sealed(name, content, make)
    shared_file.add(_part(place, name), content)
    try:
        write_below(folder, place, found)
    except OSError:
        if not config.cache_url:
            raise


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
    except (OSError, NotMine) as error:
        topic("cache").info("a note is not kept: %s", error)

"""Framelift's own files, by their content: any edit of framelift is a miss for all that was kept.

All files are read once.  The answer stays in the folder of kept captures, with what the file system says of each file:
size, times and number.  Where it says the same, no file is read again.  On another machine it says otherwise, so a
copied folder costs one reading.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from typing import Any

from ..vocabulary.own_code import FRAMELIFT
from .sealed_files import read_note, write_note

_NOTE = "own_files"
_PARTS = (".py", ".so", ".pyd")
#: a file that was written this short ago may be written again without another time
_SETTLED = 3 * 10**9


@functools.cache
def own_files() -> str:
    """The hash of all of framelift's files."""
    seen = _seen()
    facts = hashlib.sha256(json.dumps(seen).encode()).hexdigest()
    note = read_note(_NOTE)
    if type(note) is list and len(note) == 2 and note[0] == facts and type(note[1]) is str:
        return note[1]
    found = _content([row[0] for row in seen])
    # What was read is what was seen: no time is so new that an edit in between could have kept it.
    newest = max(max(row[2:4]) for row in seen)
    if _seen() == seen and time.time_ns() - newest > _SETTLED:
        write_note(_NOTE, [facts, found])
    return found


def _seen() -> list[Any]:
    """[path, size, times, number] of each file, sorted, below the folder they are in."""
    found: list[Any] = [[FRAMELIFT, 0, 0, 0, 0]]
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(os.path.join(FRAMELIFT, folder)) as entries:
            for one in entries:
                path = f"{folder}{one.name}"
                if one.name.endswith(_PARTS):
                    facts = os.stat(one.path)
                    found.append([path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino])
                elif one.is_dir():
                    pending.append(f"{path}/")
    return sorted(found)


def _content(paths: list[str]) -> str:
    made = hashlib.sha256()
    for path in paths:
        if path != FRAMELIFT:
            made.update(path.encode() + b"\n")
            with open(os.path.join(FRAMELIFT, path), "rb") as file:
                made.update(hashlib.sha256(file.read()).digest())
    return made.hexdigest()

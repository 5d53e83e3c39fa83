"""Files of source that a capture was made with: their content, by its hash.

Guards know the code of what an entry needs.  A rehearsal that ended in a graph break ran more than that: the functions
below the call that could not be captured.  An edit of these makes no entry wrong, but the break may be gone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import types
from collections.abc import Iterable
from typing import Any

from ..vocabulary.torch_code import TORCH
from .refusals import NotKept, NotMine


def content_hash(path: str) -> str:
    """The hash of a file; raises OSError."""
    facts = os.stat(path)
    return _hash(path, facts.st_mtime_ns, facts.st_size)


@functools.lru_cache(512)
def _hash(path: str, _time: int, _size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:32]


def source_rows(codes: Iterable[types.CodeType]) -> list[Any]:
    """[path, hash] of the files that code is from; torch's version is known.  Raises `NotKept`."""
    paths = sorted({code.co_filename for code in codes if not code.co_filename.startswith(TORCH)})
    try:
        return [[path, content_hash(path)] for path in paths]
    except OSError as error:
        raise NotKept("code was rehearsed that is in no file", str(error.filename)) from None


def check_sources(rows: list[Any]) -> None:
    """Raise `NotMine` where one of these files was edited."""
    for path, wanted in rows:
        try:
            found = content_hash(path)
        except OSError:
            raise NotMine(f"{path} is not there") from None
        if found != wanted:
            raise NotMine(f"{path} was edited")

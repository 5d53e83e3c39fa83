"""Sizes and numbers that earlier processes saw change, by job: TORCH_COMPILE_JOB_ID (`torch.compiler.config.job_id`)
names the job, whose next process has them symbolic from the first call.
"""

from __future__ import annotations

import contextlib
import json
import re
import types
from typing import Any

import torch

from .. import config
from ..cache.files_below import read_below, write_below
from ..cache.refusals import NotMine
from ..cache.store import folder
from .learned_shapes import Learned

_read: dict[tuple[str, str], dict[str, Any]] = {}  # what a file held when it was first read
_MOST = 1 << 26  # bytes of a file


def _place() -> tuple[str, str] | None:
    """The folder and the file of the present job; None: there is no job, or nothing is to be kept."""
    job = getattr(torch.compiler.config, "job_id", None)
    if not job or not config.automatic_dynamic_local_pgo or torch.compiler.config.force_disable_caches:
        return None
    return folder(), f"sizes/{re.sub(r'^[.]|[^A-Za-z0-9_.-]', '_', job)}.json"


def _rows(place: tuple[str, str]) -> dict[str, Any]:
    if place not in _read:
        _read[place] = {}
        with contextlib.suppress(OSError, ValueError, RecursionError, NotMine):
            rows = json.loads(read_below(*place, _MOST))
            _read[place] = rows if type(rows) is dict else {}
    return _read[place]


def _name(code: types.CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"


def expected_of(code: types.CodeType) -> Learned | None:
    """Return what earlier processes of this job saw of a code; None: nothing."""
    place = _place()
    row = _rows(place).get(_name(code)) if place is not None else None
    with contextlib.suppress(ValueError, AttributeError):  # not as it was written
        return Learned.from_data(row) if row else None
    return None


def keep_shapes(code: types.CodeType, seen: Learned) -> None:
    """Write down what changes at the calls of a code, for the next process."""
    place = _place()
    data = seen.as_data() if place is not None else {}
    if place is None or not data or _rows(place).get(_name(code)) == data:
        return
    _rows(place)[_name(code)] = data
    with contextlib.suppress(OSError, NotMine):  # a convenience: the next process finds out by itself
        write_below(*place, json.dumps(_rows(place), indent=1, sort_keys=True).encode())

"""Sizes and numbers that earlier processes saw change, by job: TORCH_COMPILE_JOB_ID (`torch.compiler.config.job_id`)
names the job, whose next process has them symbolic from the first call.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import types
from pathlib import Path
from typing import Any

import torch

from .. import config
from ..cache.store import folder
from .learned_shapes import Learned

__all__ = ["expected_of", "keep_shapes"]

_read: dict[str, dict[str, Any]] = {}  # what a file held when it was first asked for


def _path() -> Path | None:
    """The file of the present job; None: there is no job, or nothing is to be kept."""
    job = getattr(torch.compiler.config, "job_id", None)
    if not job or not config.automatic_dynamic_local_pgo or torch.compiler.config.force_disable_caches:
        return None
    return Path(folder()) / "sizes" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', job)}.json"


def _rows(path: Path) -> dict[str, Any]:
    if str(path) not in _read:
        _read[str(path)] = {}
        with contextlib.suppress(OSError, ValueError):
            rows = json.loads(path.read_text("utf-8"))
            _read[str(path)] = rows if type(rows) is dict else {}
    return _read[str(path)]


def _name(code: types.CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"


def expected_of(code: types.CodeType) -> Learned | None:
    """What earlier processes of this job saw of a code; None: nothing."""
    path = _path()
    row = _rows(path).get(_name(code)) if path is not None else None
    with contextlib.suppress(ValueError, AttributeError):  # not as it was written
        return Learned.from_data(row) if row else None
    return None


def keep_shapes(code: types.CodeType, seen: Learned) -> None:
    """Write down what changes at the calls of a code, for the next process."""
    path = _path()
    data = seen.as_data() if path is not None else {}
    if path is None or not data or _rows(path).get(_name(code)) == data:
        return
    _rows(path)[_name(code)] = data
    with contextlib.suppress(OSError):  # a convenience: the next process finds out by itself
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps(_rows(path), indent=1, sort_keys=True), "utf-8")
        whole.replace(path)

"""FRAMELIFT_PROFILE=1 (or TORCH_COMPILE_CPROFILE=1): a profile of each rehearsal, by the user's functions.
FRAMELIFT_PROFILE=FOLDER also keeps the files.
"""

from __future__ import annotations

import cProfile
import importlib
import io
import itertools
import os
import pstats
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import config
from ..vocabulary.scopes import scope

_numbers = itertools.count(1)
_ROWS = 15
_UTILS = "torch._dynamo.utils"  # imported where it is asked for alone


@scope
def profiled(name: str) -> Iterator[None]:
    """Profile a block when the environment asks for it.  Twins show as the functions they stand for."""
    where = os.environ.get("FRAMELIFT_PROFILE", "") or _asked()
    if where.lower() in ("", "0", "false", "no") or sys.getprofile() is not None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        _show(profile, name, where)


@scope
def counting_instructions() -> Iterator[None]:
    """`config.record_compile_time_instruction_count`: torch's counter runs during a capture."""
    utils: Any = importlib.import_module(_UTILS) if config.record_compile_time_instruction_count else None
    if utils is None:
        yield
        return
    utils.CompileTimeInstructionCounter.start()
    try:
        yield
    finally:
        utils.CompileTimeInstructionCounter.end()


def _asked() -> str:
    """Return the format that the options with TorchDynamo's names choose."""
    asked = config.dynamo_profiler or config.cprofile
    return asked if type(asked) is str else "1" if asked else ""


def _show(profile: cProfile.Profile, name: str, where: str) -> None:
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(_ROWS)
    rows = text.getvalue().strip().splitlines()
    print(f"framelift: profile of rehearsing {name}", *rows[:1], *rows[3:], sep="\n", file=sys.stderr)
    if where.lower() not in ("1", "true", "yes"):
        Path(where).mkdir(parents=True, exist_ok=True)
        path = Path(where) / f"framelift_{os.getpid()}_{next(_numbers)}.pstats"
        profile.dump_stats(path)
        print(f"framelift: kept in {path}", file=sys.stderr)

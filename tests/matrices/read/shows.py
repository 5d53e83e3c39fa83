"""Which changes show in which reads, found by running both eagerly once.

This only chooses the cells that a run begins with, so it need not be exact: reads that advance an iterator count as
shown.
"""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from typing import Any

from portrait import without_addresses

from .kind import Change, Kind
from .reads import Read
from .worlds import PLACES, filled, outside, world_text

__all__ = ["shown"]


def shown(kind: Kind, reads: tuple[Read, ...], changes: tuple[Change, ...]) -> frozenset[tuple[str, str]]:
    """Pairs of a read's and a change's name."""
    codes = {read.name: compile(filled(read, kind), "<read>", "exec") for read in reads}
    start = compile(world_text(kind, PLACES[0], "return x"), "<world>", "exec")
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change in changes:
            module = sys.modules["shows"] = types.ModuleType("shows")  # dataclasses look for their module
            world = vars(module)
            exec(start, world)
            before = {name: _look(code, world) for name, code in codes.items()}
            with contextlib.suppress(Exception):
                exec(outside(change.do), world)
            after = {name: _look(code, world) for name, code in codes.items()}
            with contextlib.suppress(Exception):
                exec(outside(change.undo), world)
            found |= {(name, change.name) for name in codes if before[name] != after[name]}
    sys.modules.pop("shows", None)
    return frozenset(found)


def _look(code: types.CodeType, world: dict[str, Any]) -> str:
    inner = {**world, "o": world["O"], "x": world["ARGS"][0]}
    try:
        exec(code, inner)
        return without_addresses(repr(inner["r"]))
    except Exception as error:  # noqa: BLE001  that it raises is what it shows
        return without_addresses(f"{type(error).__name__}: {error}")

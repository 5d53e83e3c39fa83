"""Kinds of Python values, one file each: all that framelift does with values of the kind."""

from __future__ import annotations

import importlib
import pkgutil

from ..boundary.becomes.containers import KINDS
from ..rehearsal.call_rule import connect_tables

for _file in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_file.name}")
connect_tables()

#: mutable sequences
ROWS: tuple[type, ...] = tuple(cls for cls, kind in KINDS.items() if kind.refill == "extend")

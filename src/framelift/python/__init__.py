"""Kinds of Python values, one file each: all that framelift does with values of the kind."""

from __future__ import annotations

from ..boundary.becomes.containers import KINDS
from . import deque, iterators, ordered_dict, random_generator, weak_references  # noqa: F401

#: mutable sequences
ROWS: tuple[type, ...] = tuple(cls for cls, kind in KINDS.items() if kind.refill == "extend")

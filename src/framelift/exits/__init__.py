"""From the end of a rehearsal to an entry: recipes of values, effects, generated source.

`plan_return` reads the values off a `Scene`; `build_entry` makes the function that runs in the root's place.
"""

from __future__ import annotations

from .entry import PLAIN, EntryPlan, Lines, build_entry, entry_around, plan_raise, plan_return
from .scene import Effect, Scene, Shadow

__all__ = [
    "Effect",
    "EntryPlan",
    "Lines",
    "PLAIN",
    "Scene",
    "Shadow",
    "build_entry",
    "entry_around",
    "plan_raise",
    "plan_return",
]

"""From the end of a rehearsal to an entry: recipes of values, effects, generated source.

`plan_return` reads the values off a scene; `build_entry` makes the function that runs in the root's place.
"""

from __future__ import annotations

from .entry import PLAIN, EntryPlan, Lines, build_entry, entry_around, plan_return

__all__ = ["EntryPlan", "Lines", "PLAIN", "build_entry", "entry_around", "plan_return"]

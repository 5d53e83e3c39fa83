"""Numbers of hooks.  torch counts them for the process, and a hook is the entry of a table under its number: one given
twice loses a hook.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterator

from torch.utils.hooks import RemovableHandle

from ..vocabulary.scopes import scope

#: the tables of hooks
Table = OrderedDict


@scope
def uncounted_hooks() -> Iterator[None]:
    """Hooks that a compiler registers are nobody's afterwards: they count for nothing.  Those of other threads do."""
    before = RemovableHandle.next_id
    try:
        yield
    finally:
        now = RemovableHandle.next_id
        while now != before:
            free = _free_from(before, now)
            if RemovableHandle.next_id == now:  # no other thread runs between this line and the next
                RemovableHandle.next_id = free
                break
            now = RemovableHandle.next_id


def _free_from(before: int, now: int) -> int:
    """The first number from which on none is the key of a hook."""
    used = before - 1
    for table in gc.get_objects():
        if type(table) is Table and table:
            last = next(reversed(table), None)  # the newest
            if type(last) is int and used < last < now:
                used = last
    return used + 1

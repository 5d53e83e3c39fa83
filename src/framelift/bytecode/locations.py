"""The location table: entries are kept as they are, and only their lengths are stretched.

An entry is a byte with the high bit set (kind in bits 3-6, length minus one in bits 0-2, in code units) and bytes
without it.  Its line is relative to the entry before, so a repeated entry says "the same line".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

_ENTRY = re.compile(rb"[\x80-\xff][\x00-\x7f]*")
_BYTE = [bytes((n,)) for n in range(256)]
_FULL = 7  # length bits of an entry of eight units, the most one entry can say
_ONE_LINE = 10  # kinds 10, 11, 12: line advances by kind - 10, two column bytes
_NO_COLUMN = 13
_LONG = 14  # line delta first, as a variable length number


def stretch(table: bytes, starts: list[int], growth: list[int]) -> bytes:
    """The table of code in which the instruction at unit `starts[n]` takes `growth[n]` units more than before."""
    entries = _ENTRY.findall(table)
    begins = [0, *accumulate([(entry[0] & 7) + 1 for entry in entries])]
    extra: dict[int, int] = {}
    for start, more in zip(starts, growth):
        if more:
            index = bisect_right(begins, start) - 1
            extra[index] = extra.get(index, 0) + more
    for index, more in extra.items():
        entry = entries[index]
        entries[index] = _resized(entry, (entry[0] & 7) + 1 + more)
    return b"".join(entries)


def _resized(entry: bytes, length: int) -> bytes:
    head, tail = entry[0] & 0xF8, entry[1:]
    if length <= 8:
        # An entry that shrinks to nothing would take its line with it.  It cannot: only instructions longer than a full
        # entry shrink, and the entry in which such an instruction starts is full.
        assert length > 0
        return _BYTE[head | length - 1] + tail
    again, again_tail = _repeated(head, tail)
    full, rest = divmod(length - 9, 8)
    return b"".join(
        (_BYTE[head | _FULL], tail, (_BYTE[again | _FULL] + again_tail) * full, _BYTE[again | rest], again_tail)
    )


def _repeated(head: int, tail: bytes) -> tuple[int, bytes]:
    """The same location once more, without advancing the line."""
    kind = head >> 3 & 15
    if _ONE_LINE < kind < _NO_COLUMN:
        return 0x80 | _ONE_LINE << 3, tail
    if kind == _NO_COLUMN:
        return head, b"\0"
    if kind == _LONG:
        delta = 0
        while tail[delta] & 0x40:
            delta += 1
        return head, b"\0" + tail[delta + 1 :]
    return head, tail

"""Where the instructions of a code object went in its twin.  Offsets are bytes, as in `frame.f_lasti`."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Replaced instructions in code units: `starts`, `ends` in the original, `shifts[n]` the growth before number n."""

    starts: list[int]
    ends: list[int]
    shifts: list[int]

    def place(self, unit: int) -> int:
        """The twin's code unit of an original instruction (by its first unit)."""
        return unit + self.shifts[bisect_right(self.ends, unit)]

    def to_original(self, offset: int) -> int:
        """Offset of the original instruction that the twin's instruction at `offset` belongs to.

        For instructions that were not replaced it is exact; inside a replacement it is the replaced instruction's first
        byte (its EXTENDED_ARG, where it has one).
        """
        unit = offset // 2
        site = bisect_right(range(len(self.starts)), unit, key=lambda n: self.starts[n] + self.shifts[n]) - 1
        if site < 0:
            return offset
        start, end = self.starts[site], self.ends[site]
        after = end + self.shifts[site + 1]
        return 2 * (start if unit < after else end + unit - after)

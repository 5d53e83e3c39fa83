"""The exception table: ranges of code units, their handlers, and the stack depth to unwind to.

Four numbers an entry (start, length, handler, depth and lasti flag), each big-endian in groups of six bits; bit 6
says that more follows, bit 7 marks the first byte of an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: start, end, handler (code units), depth << 1 | lasti
Handler = tuple[int, int, int, int]


def decode(table: bytes) -> list[Handler]:
    """The entries of an exception table."""
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            numbers.append(value)
            value = 0
    fields = iter(numbers)
    return [
        (start, start + length, target, depth) for start, length, target, depth in zip(fields, fields, fields, fields)
    ]


def encode(entries: Iterable[Handler]) -> bytes:
    """The table of these entries."""
    out = bytearray()
    for start, end, target, depth in entries:
        first = len(out)
        for value in (start, end - start, target, depth):
            shift = 6
            while value >> shift:
                shift += 6
            while shift:
                shift -= 6
                out.append(value >> shift & 0x3F | (0x40 if shift else 0))
        out[first] |= 0x80
    return bytes(out)


def relocate(table: bytes, place: Callable[[int], int]) -> bytes:
    """The table after instructions moved: `place` is the new code unit of an old one."""
    return encode([(place(start), place(end), place(target), depth) for start, end, target, depth in decode(table)])

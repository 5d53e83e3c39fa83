"""Instructions as bytes.  No opcode is named here but EXTENDED_ARG, which every CPython's `opcode` module exports."""

from __future__ import annotations

from opcode import EXTENDED_ARG, opmap


def width(arg: int) -> int:
    """How many EXTENDED_ARG prefixes an argument needs."""
    return 0 if arg < 0x100 else 1 if arg < 0x10000 else 2 if arg < 0x1000000 else 3


def instruction(op: int, arg: int, prefixes: int = 0) -> bytes:
    """One instruction without caches, with at least `prefixes` EXTENDED_ARG before it."""
    if arg < 0x100 and not prefixes:
        return bytes((op, arg))
    prefixes = max(prefixes, width(arg))
    head = b"".join(bytes((EXTENDED_ARG, arg >> 8 * n & 0xFF)) for n in range(prefixes, 0, -1))
    return head + bytes((op, arg & 0xFF))


def named(name: str, arg: int = 0, caches: int = 0) -> bytes:
    """An instruction of the running interpreter by its name, with its inline caches."""
    return instruction(opmap[name], arg) + bytes(2 * caches)

"""Addresses that texts show: `<function f at 0x7f...>`.  Which of them are known is not decided here."""

from __future__ import annotations

import re

_SHOWN = re.compile(" at 0x([0-9a-fA-F]*)")


def shown_addresses(text: str) -> frozenset[int | None]:
    """The addresses in a text, as CPython writes them; None among them for one that is cut off.

    >>> shown_addresses("<object object at 0xff>, <A at 0x10>") == {255, 16}
    True
    """
    return frozenset([int(digits, 16) if digits else None for digits in _SHOWN.findall(text)])

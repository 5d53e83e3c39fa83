"""Values as text, for sentences about them: also those of which Python makes no text."""

from __future__ import annotations

import re
from typing import Any


def shown_value(value: Any) -> str:
    """Return the `repr` of a plain value, or its class where there is none.

    >>> shown_value("a"), shown_value(1 << 20000)
    ("'a'", 'an int of 20001 bits')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"an int of {value.bit_length()} bits" if type(value) is int else f"a {type(value).__name__}"


# ---- Addresses that texts show: `<function f at 0x7f...>`.  Which of them are known is not decided here ----


_SHOWN = re.compile(" at 0x([0-9a-fA-F]*)")


def shown_addresses(text: str) -> frozenset[int | None]:
    """The addresses in a text, as CPython writes them; None among them for one that is cut off.

    >>> shown_addresses("<object object at 0xff>, <A at 0x10>") == {255, 16}
    True
    """
    return frozenset([int(digits, 16) if digits else None for digits in _SHOWN.findall(text)])

"""Values as text, for sentences about them: also those of which Python makes no text."""

from __future__ import annotations

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

"""Values of which Python makes no text have one in sentences."""

from __future__ import annotations

from typing import Any

from framelift.vocabulary.shown_values import shown_value


def test_values() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert (shown_value([1, "a"]), shown_value(1 << 20000)) == ("[1, 'a']", "an int of 20001 bits")
    assert shown_value(deep) == "a list"

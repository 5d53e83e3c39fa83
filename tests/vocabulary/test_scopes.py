"""Context managers without frames of contextlib, and calls that put something back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framelift._core import insist
from framelift.vocabulary.scopes import scope


def _noting(events: list[str]) -> Iterator[str]:
    events.append("begins")
    try:
        yield "value"
    finally:
        events.append("ends")


def test_a_scope_ends_whatever_strikes_its_block() -> None:
    events: list[str] = []
    with scope(_noting)(events) as value:
        assert (value, events) == ("value", ["begins"])
    with pytest.raises(ZeroDivisionError), scope(_noting)(events):
        1 // 0
    assert events == ["begins", "ends"] * 2


def test_insist_calls_until_it_is_done() -> None:
    events: list[str] = []

    def put_back() -> None:
        events.append("tried")
        if len(events) < 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        insist(put_back)
    assert events == ["tried"] * 3

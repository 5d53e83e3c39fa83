"""The kept matrix in small: what a process kept, another one uses where nothing was edited, and nowhere else.

`make matrices` runs all of it.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import pytest

from matrices import kept

#: reasons why some of these captures are not kept
NOT_KEPT = {
    "an object has no written form",
    "the program asks for what each process has of its own",
    "the order of a set was looked at, which differs from process to process",
    "a constant is no plain value",
    "a guard has no written form",
    "the program asks which of equal values it has",
    "a bound method of an object written in C",
    "code holds an object that was put there",
    "something is not found again by its name",
}


def chosen(count: int, first: int = 0) -> list[str]:
    """So many names: each kind and each place in turn."""
    every = list(kept.names())
    return [every[(first + i * len(every)) // count] for i in range(count)]


def run(names: Sequence[str], backend: str = "eager", **environment: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Two processes: in the second, every other module is as it was, and the others are edited."""
    edits = [number // 2 % kept.edits_of(name) + 1 if number % 2 else 0 for number, name in enumerate(names)]
    rows = kept.rows_of(names, [edits], backend, environment)
    wrong = kept.failures_of(rows)
    assert not wrong, wrong
    seen = collections.Counter[str]()
    for name, edit, row in rows:
        if "no program" not in row:
            seen[edit] += 1
            seen[f"{edit} loaded"] += row["loaded"]
            assert not set(row["not kept"]) - NOT_KEPT, (name, row)
    assert seen["same loaded"] > 0.8 * seen["same"]  # a matrix that never loads proves nothing
    return rows


def test_edits_between_two_processes() -> None:
    by_hand = [f"{kind}/put into the code/0" for kind in ("array", "bytearray", "set in the code")]
    rows = run(chosen(60) + by_hand + ["huge int/key/0"])
    assert len({edit for _, edit, _ in rows}) > 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["enum.IntEnum", "str, enum.Enum", "float, enum.Enum", "tuple, enum.Enum"])
def test_each_edit_of_a_member(kind: str) -> None:
    names = [f"member of ({kind})/{place}/{use}" for place, use in (("global", 4), ("argument", 4), ("default", 6))]
    rows = kept.rows_of(names)
    assert not kept.failures_of(rows)
    assert sum(row["loaded"] for _, edit, row in rows if edit == "same") == len(names)


@pytest.mark.slow
def test_edits_under_inductor() -> None:
    """With the settings that a program has."""
    run(chosen(12, 5) + [f"member of (enum.IntEnum)/{place}/4" for place in ("global", "argument")], "inductor")

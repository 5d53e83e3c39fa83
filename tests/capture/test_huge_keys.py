"""Numbers with more digits than Python makes a text of, where framelift keeps texts."""

from __future__ import annotations

from typing import Any

import torch

from support import check

HUGE = 1 << 20000
TABLE: dict[Any, Any] = {HUGE: 1, (HUGE, 2): [3]}


def test_keys_of_a_dictionary() -> None:
    def keys(x: torch.Tensor) -> Any:
        key = next(iter(TABLE))
        return x + TABLE[key], abs(key) < 9

    check(keys, torch.ones(2))


def test_what_lies_below_such_a_key() -> None:
    def below(x: torch.Tensor) -> Any:
        return x * TABLE[HUGE] + TABLE[HUGE, 2][0]

    def change(i: int, _: Any) -> None:
        TABLE[HUGE, 2] = [3 + i]

    check(below, torch.ones(2), mutate=change, calls=3, captures=None, graphs=None, state=[(TABLE, (HUGE, 2))])


def test_members_of_a_set() -> None:
    members = {HUGE}

    def member(x: torch.Tensor) -> Any:
        return x * (next(iter(members)) % 7), HUGE in members, len(members | {HUGE + 1})

    check(member, torch.ones(2))

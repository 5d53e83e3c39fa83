"""Planted defects: framelift with one kind of guard left out.  The law test must find every one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from framelift.guard.program import build_program
from framelift.run import driver

from .generate import generate
from .runner import Verdict, judge

__all__ = ["DEFECTS", "first_failure", "planted"]

#: guard kinds, the conditions of a whole program, and what the random programs cannot tell apart (with the reason)
DEFECTS = ("TYPE", "IS", "EQ", "CODE", "LEN", "KEYS", "ABSENT", "NO_LOOKUP", "DUNDERS", "TENSOR", "SAME", "distinct", "state")
NOT_FOUND = {
    "EMPTY": "programs do not empty and fill closure cells",
    "CHECK": "no import rule that the programs reach uses it",
}


@contextlib.contextmanager
def planted(defect: str) -> Iterator[None]:
    """Build every guard program without `defect`."""
    def leaky(guards: Sequence[Any], inputs: Any, externals: Any, distinct: Any, state: Any) -> Any:
        kept = [g for g in guards if g.kind != defect]
        return build_program(kept, inputs, externals, () if defect == "distinct" else distinct, None if defect == "state" else state)

    with mock.patch.object(driver, "build_program", leaky):
        yield


def first_failure(seeds: Sequence[int]) -> Verdict | None:
    """The first program that is judged wrong."""
    for seed in seeds:
        verdict = judge(generate(seed, 1 + seed % 8))
        if verdict.failure:
            return verdict
    return None

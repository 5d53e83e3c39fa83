"""Keeps, of a product of parameters, so many combinations that each pair of two parameters' values is in one.

A test with parameters of 13, 31, 2 and 2 values has 1612 combinations; 403 hold each pair.  Most mistakes show for one
value, or for two that meet.  `make test` runs the pairs, `make nightly` the whole product (`--whole`).

Each `parametrize` is one parameter, also where it names several arguments: its rows are cases that somebody chose, and
each stays.  To let a product be thinned out, write a `parametrize` for each of its factors.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable, Sequence

import pytest

__all__ = ["pairwise", "pairwise_items"]


def pairwise(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the numbers of rows that together hold each pair of values that any row holds, in their order.

    The row with the most pairs that are still missing comes next, the first of those: always the same ones.
    """
    pairs = [set(itertools.combinations(enumerate(row), 2)) or {(*enumerate(row),)} for row in rows]
    missing = set[Hashable]().union(*pairs)
    waiting = [(-len(held), number) for number, held in enumerate(pairs)]
    heapq.heapify(waiting)
    kept = []
    while missing:
        promised, number = heapq.heappop(waiting)
        found = len(pairs[number] & missing)  # only falls, so the heap is asked again only where it has fallen
        if found == -promised:
            kept.append(number)
            missing -= pairs[number]
        elif found:
            heapq.heappush(waiting, (-found, number))
    return sorted(kept)


def pairwise_items(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run and those left out: of each test function's combinations, the pairs."""
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for _, group in itertools.groupby(items, lambda item: (item.parent, getattr(item, "originalname", item.name))):
        same = list(group)
        # pytest's list of one id for each `parametrize`; `callspec.indices` numbers the combinations instead
        chosen = set(pairwise([item.callspec._idlist if hasattr(item, "callspec") else () for item in same]))
        for number, item in enumerate(same):
            (kept if number in chosen else dropped).append(item)
    return kept, dropped

"""Ranks that do not do the same: no hang, as many collectives as eagerly, equal results, or an error that names a rank.

The programs are in distributed_faults.py; each rank is a process, and the group is gloo's.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

_FAULTS = str(pathlib.Path(__file__).with_name("distributed_faults.py"))


def faults(ranks: int, store: pathlib.Path, *given: str) -> list[list[Any]]:
    """What each rank finds in programs where ranks do not do the same; none hangs."""
    processes = [
        subprocess.Popen(
            [sys.executable, _FAULTS, str(rank), str(ranks), str(store), *given], stdout=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]
    try:
        return [
            [json.loads(line) for line in process.communicate(timeout=300)[0].splitlines()] for process in processes
        ]
    finally:
        for process in processes:
            process.kill()


def check_faults(found: list[list[Any]]) -> None:
    for programs in found:
        for one in programs:
            assert not one["differs"] and one["compiled"] == one["eager"] > 0, one
            assert bool(one["loaded"]) is (one["name"] == "loads_from_disk"), one


def test_ranks_that_do_not_do_the_same(tmp_path: pathlib.Path) -> None:
    names = ("recompiles", "raises_between", "breaks", "not_captured", "message")
    first, second = faults(2, tmp_path / "store", "aot_eager", "agree", *names)
    told, own = first.pop(), second.pop()
    assert told.startswith("RankError") and "rank 1 could not: Unsupported" in told and own.startswith("Unsupported")
    check_faults([first, second])


def test_a_rank_that_cannot_compile_is_named(tmp_path: pathlib.Path) -> None:
    ((told,), (own,)) = faults(2, tmp_path / "store", "eager", "alone", "message")
    assert "rank 0 of 2 was in a graph of" in told and "rank 1 could not compile" in told
    assert "the program asked for a graph break" in told and own.startswith("Unsupported")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("agree", ["agree", "alone"])
def test_all_faults(ranks: int, agree: str, tmp_path: pathlib.Path) -> None:
    found = faults(ranks, tmp_path / "store", "aot_eager", agree)
    assert all(len(programs) == 15 for programs in found)
    check_faults(found)

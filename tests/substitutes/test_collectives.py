"""Collectives and distributed tensors in captured functions: equal to eager mode on each rank of gloo."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest


def agree(
    backends: str, store: pathlib.Path, names: Sequence[str] = (), ranks: int = 2, caches: Sequence[str] = ()
) -> None:
    script = str(pathlib.Path(__file__).with_name("collectives_program.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), str(store), backends, *names],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FRAMELIFT_CACHE_DIR": caches[rank], "FRAMELIFT_CACHE": "1"} if caches else None,
        )
        for rank in range(ranks)
    ]
    try:
        for process in processes:
            assert json.loads(process.communicate(timeout=550)[0].splitlines()[-1]) == {}
    finally:
        for process in processes:
            process.kill()


def test_two_ranks(tmp_path: pathlib.Path) -> None:
    agree("aot_eager", tmp_path / "store")


def test_ranks_share_a_folder_of_captures(tmp_path: pathlib.Path) -> None:
    """A capture says who this rank is: no other rank loads it."""
    names, folder = ["asks_mesh", "all_reduce", "ranks", "dtensor_partial"], str(tmp_path / "captures")
    agree("eager", tmp_path / "store", names, caches=(folder, folder))


@pytest.mark.slow
def test_one_rank_loads_what_the_other_captures(tmp_path: pathlib.Path) -> None:
    names = ["all_reduce", "async_all_reduce", "functional_by_name", "one_rank_recompiles"]
    first, second, empty = (str(tmp_path / name) for name in ("first", "second", "empty"))
    agree("eager", tmp_path / "a", names, caches=(first, second))
    agree("eager", tmp_path / "b", names, caches=(first, empty))


@pytest.mark.slow
def test_four_ranks(tmp_path: pathlib.Path) -> None:
    agree("eager", tmp_path / "store", ranks=4)


@pytest.mark.slow
def test_two_ranks_with_inductor(tmp_path: pathlib.Path) -> None:
    agree("inductor", tmp_path / "store", "all_reduce all_gather_list functional_by_mesh dtensor_gradient".split())

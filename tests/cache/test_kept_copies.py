"""Captures kept on disk of programs that ask for identities: deep copies, where which of equal values are one object
may differ from process to process, and programs that ask for addresses.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from kept_support import check

PROGRAM = Path(__file__).with_name("copies_program.py")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache=True, cache_dir=str(tmp_path)):
        yield


class Settings:
    def __init__(self, rate: float, again: float, name: str, table: dict[str, Any]) -> None:
        self.rate, self.again, self.name, self.table = rate, again, name, table
        self.sizes: int | None = 3
        self.shared = table


def copied(x: torch.Tensor, settings: Settings) -> Any:
    own = copy.deepcopy(settings)
    own.table["added"] = own.rate
    return x * own.rate + own.again, own.name, own.table is own.shared, own.table, len(settings.table)


def _text(text: str) -> str:
    return "".join(list(text))  # another object at each call


def _settings(**changes: Any) -> Settings:
    rate, name = float("0.1"), _text("gelu")
    return Settings(**{"rate": rate, "again": rate, "name": name, "table": {name: 1, "k": [rate]}, **changes})


def test_equal_values_may_be_other_objects() -> None:
    x = torch.ones(3)
    check(copied, x, _settings(), loaded=False)
    check(copied, x, _settings(), loaded=True)
    check(copied, x, _settings(again=float("0.1"), table={_text("gelu"): 1, "k": [float("0.1")]}), loaded=True)
    check(copied, x, _settings(name="gelu"), loaded=True)  # a constant of code


CHANGES: dict[str, Callable[[], Settings]] = {
    "a number": lambda: _settings(again=0.2),
    "a text": lambda: _settings(name="relu"),
    "a key": lambda: _settings(table={"relu": 1, "k": [0.1]}),
    "a list": lambda: _settings(table={"gelu": 1, "k": [0.1, 0.1]}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_values_are_a_miss(change: Callable[[], Settings]) -> None:
    check(copied, torch.ones(3), _settings(), loaded=False)
    check(copied, torch.ones(3), change(), loaded=False)


def test_one_table_is_not_two() -> None:
    x, settings = torch.ones(3), _settings()
    check(copied, x, settings, loaded=False)
    settings.shared = dict(settings.table)
    check(copied, x, settings, loaded=False)
    check(copied, x, settings, loaded=True)
    settings.shared = settings.table
    check(copied, x, settings, loaded=True)


def test_another_copier_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    check(copied, torch.ones(3), _settings(), loaded=False)
    monkeypatch.setitem(vars(copy)["_deepcopy_dispatch"], float, lambda number, memo: 2 * number)
    check(copied, torch.ones(3), _settings(), loaded=False)


class Node:
    pass


NODES = [Node(), Node()]
ASKING: dict[str, Callable[[torch.Tensor], Any]] = {
    "id": lambda x: x + id(NODES[0]) % 2,
    "id by C code": lambda x: x + sorted(NODES, key=id).index(NODES[0]),
    "hash of a text": lambda x: x + hash("text") % 2,
    "hash by address": lambda x: x + hash(NODES[0]) % 2,
    "hash of None": lambda x: x + hash((1, None)) % 2,
}


@pytest.mark.parametrize("function", ASKING.values(), ids=ASKING)
def test_what_each_process_has_of_its_own_is_not_kept(function: Callable[[torch.Tensor], Any]) -> None:
    check(function, torch.ones(3), loaded=False)
    assert framelift.stats()["not_kept"] == {"the program asks for what each process has of its own": 1}
    check(function, torch.ones(3), loaded=False)


def test_hashes_of_numbers_are_the_same_everywhere() -> None:
    function: Callable[[torch.Tensor], Any] = lambda x: x + hash((1, 2.5)) % 7  # noqa: E731
    check(function, torch.ones(3), loaded=False)
    check(function, torch.ones(3), loaded=True)


@pytest.mark.slow
def test_other_processes(tmp_path: Path) -> None:
    """The second process has equal values as one object where the first has several, and the other way round."""
    for how, loaded in (("several", 0), ("one", 1), ("interned", 1), ("several", 1), ("changed", 0)):
        environment = {**os.environ, "FRAMELIFT_CACHE": "1", "FRAMELIFT_CACHE_DIR": str(tmp_path / "shared")}
        done = subprocess.run(
            [sys.executable, str(PROGRAM), how], stdout=subprocess.PIPE, text=True, env=environment, timeout=300
        )
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["eager"] == found["compiled"]
        assert (found["captures"], found["loaded"], found["not_kept"]) == (1 - loaded, loaded, {}), how

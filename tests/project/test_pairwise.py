"""Products of parameters are thinned out to their pairs, and nothing is lost in `make nightly`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from pairwise import pairwise

ROOT = Path(__file__).resolve().parents[2]


def _pairs(rows: list[tuple[int, ...]]) -> set[tuple[tuple[int, int], ...]]:
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


@pytest.mark.parametrize("sizes", [(2, 3), (3, 3, 3), (5, 4, 3, 2), (2,) * 7, (10, 8, 7)])
def test_each_pair_is_kept(sizes: tuple[int, ...]) -> None:
    rows = list(itertools.product(*map(range, sizes)))
    chosen = pairwise(rows)
    assert _pairs([rows[number] for number in chosen]) == _pairs(rows)
    assert chosen == pairwise(rows) == sorted(set(chosen))
    assert len(sizes) == 2 or len(chosen) < len(rows)


def test_pairs_that_no_row_has_are_not_asked_for() -> None:
    assert pairwise([(0, 0, 0), (0, 1, 1), (1, 0, 1)]) == [0, 1, 2]
    assert pairwise([()]) == [0] and pairwise([(1,), (2,)]) == [0, 1] and pairwise([]) == []


PROGRAM = """
import pytest

@pytest.mark.parametrize("a, b", [(0, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("c", range(3))
@pytest.mark.parametrize("d", range(3))
def test_product(a, b, c, d):
    pass

@pytest.mark.slow
def test_slow():
    pass
"""


@pytest.mark.parametrize(("arguments", "passed"), [((), 10), (("--whole",), 28), (("::test_slow",), 1)])
def test_what_runs(arguments: tuple[str, ...], passed: int, tmp_path: Path) -> None:
    for name in ("conftest.py", "pairwise.py", "repeated_tapes.py"):
        (tmp_path / name).write_text((ROOT / "tests" / name).read_text(encoding="utf8"))
    (tmp_path / "test_here.py").write_text(PROGRAM)
    named = "".join(one for one in arguments if one.startswith("::"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"test_here.py{named}"]
    done = subprocess.run(
        [*command, *(one for one in arguments if one.startswith("--"))], cwd=tmp_path, capture_output=True, text=True
    )
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr

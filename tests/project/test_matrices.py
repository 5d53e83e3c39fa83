"""The matrices in small: some cells of each, chosen so that every kind of object and every read is among them.

`make matrices` runs them all.
"""

from __future__ import annotations

import sys

import pytest

import framelift
from matrices import read
from matrices.fault import points
from matrices.read.reads import READS
from matrices.read.worlds import ENDS


def chosen() -> list[str]:
    """For each kind the next few reads in turn, with the next of its changes, and a cell that writes for every fourth
    kind.
    """
    cells: dict[str, dict[str, list[str]]] = {}
    written: dict[str, list[str]] = {}
    for cell in read.cells():
        kind, name, *_, how = cell.name.split("/")
        (written.setdefault(kind, []) if how in ENDS else cells.setdefault(kind, {}).setdefault(name, [])).append(
            cell.name
        )
    found, turn = [], 0
    for number, (kind, by_read) in enumerate(cells.items()):
        if kind in OPEN_KINDS:
            continue
        name = READS[turn % len(READS)].name
        turn += 1
        if name in by_read and (kind, name) not in OPEN:
            found.append(by_read[name][number % len(by_read[name])])
        if number % 8 == 0 and written.get(kind):
            found.append(written[kind][number % len(written[kind])])
    return found


#: kinds of which many cells differ still: what `make matrices` reports of them is work to do
OPEN_KINDS: frozenset[str] = frozenset()
#: pairs of a kind and a read that differ still
OPEN: frozenset[tuple[str, str]] = frozenset()


@pytest.mark.parametrize("name", chosen())
def test_a_cell_of_the_read_matrix(name: str) -> None:
    found = read.find(name).run()
    assert found is None, found


def test_every_read_and_nearly_every_kind_is_among_them() -> None:
    names = [name.split("/") for name in chosen()]
    assert len({kind for kind, *_ in names}) > 0.9 * (len(read.KINDS) - len(OPEN_KINDS))
    assert len({name for _, name, *_ in names}) > 0.9 * len(READS)


def test_cells_are_found_by_their_names() -> None:
    names = [cell.name for cell in read.cells()]
    assert len(names) == len(set(names)) > 100_000
    assert read.find(names[7]).name == names[7]


def test_faults_strike_functions_that_exist() -> None:
    assert framelift.compile  # loads them
    for owner, names in points._FUNCTIONS:
        module, _, cls = owner.partition(":")
        home = sys.modules[f"framelift.{module}"]
        assert set(names) <= set(vars(getattr(home, cls) if cls else home)), owner

"""Writes docs/breaks.md: how many graphs are captured for each kind of break in each kind of block (the programs of
tests/capture/break_matrix.py).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "capture")]

from break_matrix import BLOCKS, KINDS  # noqa: E402
from test_breaks import _made, _run  # noqa: E402

import framelift  # noqa: E402

HEAD = """# Breaks: graphs per kind and block

Each cell is a program of `tests/capture/break_matrix.py`: a statement of the kind (column) inside the block (row),
called three times with growing state.  The number is how many graphs were captured over the three calls;
`tests/capture/test_breaks.py` checks that every cell gives what eager mode gives.
Written by `python tools/break_table.py`.

"""


def main() -> None:
    """Run every program and write the page."""
    rows = [f"| block | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for block in BLOCKS:
        cells = []
        for kind in KINDS:
            made = _made(kind, block)
            framelift.reset()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _run(made, framelift.compile(made.program, backend="eager"))
            cells.append(str(framelift.stats()["graphs"]))
        rows.append(f"| {block} | {' | '.join(cells)} |")
    (ROOT / "docs" / "breaks.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

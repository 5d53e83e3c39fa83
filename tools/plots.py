"""Draws the figures of docs/benchmarks.md from data files, which say with what command, at which commit and on which
machine they were measured.

    python tools/plots.py            write docs/pictures/NAME.svg for every docs/figures/NAME.json
    python tools/plots.py --check    exit with 1 when a picture is not what its data say

A data file is a JSON object with `title`, `command`, `commit`, `machine`, and one of:

    "first_step": the rows that `benchmarks/first_step.py --json` writes
    "pairs":      the rows that `benchmarks/capture.py --json` and `benchmarks/call.py --json` print, in seconds, with
                  `unit` and `scale` for the text; or counts, each with the `total` they are part of
    "corpus":     the name of a file beside it, with the lines that `benchmarks/corpus.py --json` writes

The pictures are light or dark as the reader's browser is.  tests/project/test_plots.py fails when one is not current.
"""

from __future__ import annotations

import html
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIGURES, PICTURES = ROOT / "docs" / "figures", ROOT / "docs" / "pictures"
NEEDED = ("title", "command", "commit", "machine")
KINDS = ("first_step", "pairs", "corpus")

_WIDTH, _LEFT, _BAR, _GAP = 760, 230, 14, 12
_NOTE = 118  # characters in a row of a note
_NAMES = {"framelift": "framelift", "dynamo": "torch.compile"}
_STYLE = """<style>
text { fill: #1d2329; } .note { fill: #67727e; font-size: 11px; } .back { fill: #ffffff; } .axis { stroke: #67727e; }
.framelift { fill: #2a6f97; } .dynamo { fill: #c4a484; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e8ec; } .note { fill: #95a0ac; } .back { fill: #14171b; } .axis { stroke: #95a0ac; }
.framelift { fill: #5fa8d3; } .dynamo { fill: #8a6f52; } }
</style>"""
#: bounds of the columns of a histogram of ratios
_BOUNDS = (0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)


@dataclass(frozen=True)
class Pair:
    """Two bars under one label: how long each is in proportion, and what stands beside it."""

    label: str
    framelift: float
    dynamo: float
    framelift_text: str
    dynamo_text: str


def _first_step(rows: list[dict[str, Any]]) -> list[Pair]:
    found = []
    for row in rows:
        ours, theirs, unit = row["framelift"], row["torch.compile"], row["unit"]
        for state, one, other in zip(("cold", "warm"), ours, theirs):
            label = f"{row['model']}, {row['layers']} layers, {state}"
            found.append(Pair(label, one[unit], other[unit], f"{one[unit]:.1f}", f"{other[unit]:.1f}"))
    return found


def _pairs(rows: list[dict[str, Any]], scale: float) -> list[Pair]:
    found = []
    for row in rows:
        ours, theirs, total = row["framelift"], row["dynamo"], row.get("total")
        if total:
            texts = f"{ours} of {total}", f"{theirs} of {total}"
            found.append(Pair(row["name"], ours / total, theirs / total, *texts))
        else:
            found.append(Pair(row["name"], ours, theirs, _number(ours * scale), _number(theirs * scale)))
    return found


def _number(value: float) -> str:
    """Three digits, or a whole number.

    >>> _number(1.1749), _number(16142.3)
    ('1.17', '16,142')
    """
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(text)}</text>'


def _bars(pairs: list[Pair], top: int) -> tuple[list[str], int]:
    """Two bars for each pair, from `top` down; and where they end."""
    most = max(max(pair.framelift, pair.dynamo) for pair in pairs)
    parts, y = [], top
    for pair in pairs:
        parts.append(_text(_LEFT - 8, y + _BAR + 4, pair.label, ' text-anchor="end"'))
        for name, value, text in (
            ("framelift", pair.framelift, pair.framelift_text),
            ("dynamo", pair.dynamo, pair.dynamo_text),
        ):
            length = max(1.0, (_WIDTH - _LEFT - 150) * value / most)
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR - 1}" class="{name}"/>')
            parts.append(_text(_LEFT + length + 6, y + _BAR - 3, f"{text} {_NAMES[name]}"))
            y += _BAR
        y += _GAP
    return parts, y


def _columns(title: str, ratios: list[float], top: int) -> tuple[list[str], int]:
    """A histogram of ratios, from `top` down; and where it ends."""
    height, width = 130, (_WIDTH - 80) / len(_BOUNDS)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    head = f"{title}: {mean:.1f} times less than torch.compile (geometric mean of {len(ratios)} models)"
    parts = [_text(40, top + 12, head)]
    counts = [sum(low <= ratio < high for ratio in ratios) for low, high in zip(_BOUNDS, (*_BOUNDS[1:], math.inf))]
    floor = top + 40 + height
    for number, (low, count) in enumerate(zip(_BOUNDS, counts)):
        x, tall = 40 + number * width, height * count / max(counts)
        if count:
            parts.append(
                f'<rect x="{x + 2:.1f}" y="{floor - tall:.1f}" width="{width - 4:.1f}" height="{tall:.1f}" '
                'class="framelift"/>'
            )
            parts.append(_text(x + width / 2, floor - tall - 4, str(count), ' text-anchor="middle"'))
        parts.append(_text(x, floor + 15, f"{low}", ' text-anchor="middle" class="note"'))
    parts.append(f'<line x1="40" y1="{floor}" x2="{_WIDTH - 40}" y2="{floor}" class="axis"/>')
    return parts, floor + 30


def _histograms(rows: list[dict[str, Any]], top: int) -> tuple[list[str], int]:
    parts: list[str] = []
    for what, title in (("capture", "CPU time of a capture"), ("call", "Overhead of a call")):
        ours, theirs = f"framelift_{what}", f"dynamo_{what}"
        ratios = [row[theirs] / row[ours] for row in rows if ours in row and theirs in row]
        if ratios:
            more, top = _columns(title, ratios, top)
            parts += more
    return parts, top


def svg(data: dict[str, Any], beside: Path) -> str:
    """The picture of one data file; files that it names are looked for `beside` it."""
    missing = [name for name in NEEDED if not data.get(name)]
    if missing or sum(kind in data for kind in KINDS) != 1:
        raise ValueError(f"a figure needs {', '.join(NEEDED)} and one of {', '.join(KINDS)}")
    if "corpus" in data:
        lines = (beside / data["corpus"]).read_text().splitlines()
        parts, end = _histograms([json.loads(line) for line in lines if line.strip()], 44)
    else:
        pairs = _first_step(data["first_step"]) if "first_step" in data else _pairs(data["pairs"], data.get("scale", 1))
        parts, end = _bars(pairs, 44)
    head = f"{data['title']}, {data['unit']}" if data.get("unit") else str(data["title"])
    notes = [
        row for note in (data["command"], f"{data['machine']}; commit {data['commit']}") for row in wrap(note, _NOTE)
    ]
    foot = [_text(16, end + 12 + 15 * i, note, ' class="note"') for i, note in enumerate(notes)]
    high = end + 10 + 15 * len(notes)
    shown = "\n".join([_text(16, 24, head, ' font-weight="bold"'), *parts, *foot])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" font-family="sans-serif" '
        f'font-size="12">\n{_STYLE}\n<rect width="100%" height="100%" class="back"/>\n{shown}\n</svg>\n'
    )


def pictures() -> dict[Path, str]:
    """Where each picture belongs, and what it shows."""
    return {
        PICTURES / f"{path.stem}.svg": svg(json.loads(path.read_text()), path.parent)
        for path in sorted(FIGURES.glob("*.json"))
    }


def main() -> int:
    made = pictures()
    if "--check" in sys.argv:
        old = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
        print("\n".join(f"{name} is not current: run python tools/plots.py" for name in old), end="\n" * bool(old))
        return int(bool(old))
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

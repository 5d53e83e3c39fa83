"""Draw what `benchmarks/first_step.py --json` measured: the first call, cold and warm, of both front ends.

python tools/first_step_plot.py rows.json docs/pictures/first_step.svg
"""

from __future__ import annotations

import json
import sys
from typing import Any

_WIDTH, _LEFT, _BAR, _GAP = 760, 190, 14, 12
_COLORS = {"framelift": "#2a6f97", "torch.compile": "#c9ada7"}


def bars(rows: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """(label, front end, seconds) of all bars from the top down."""
    return [
        (f"{row['model']}, {row['layers']} layers, {state}", front_end, row[front_end][index][row["unit"]])
        for row in rows
        for index, state in enumerate(("cold", "warm"))
        for front_end in _COLORS
    ]


def svg(rows: list[dict[str, Any]]) -> str:
    found = bars(rows)
    most = max(seconds for _, _, seconds in found)
    units = {row["unit"] for row in rows}
    what = "CPU seconds of all processes" if units == {"cpu"} else "wall seconds"
    parts, y = [], 40
    for number, (label, front_end, seconds) in enumerate(found):
        first = number % len(_COLORS) == 0
        if first:
            parts.append(f'<text x="{_LEFT - 8}" y="{y + _BAR + 3}" text-anchor="end">{label}</text>')
        length = max(1.0, (_WIDTH - _LEFT - 120) * seconds / most)
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}" fill="{_COLORS[front_end]}"/>')
        parts.append(f'<text x="{_LEFT + length + 6:.1f}" y="{y + _BAR - 3}">{seconds:.1f} {front_end}</text>')
        y += _BAR if first else _BAR + _GAP
    head = f'<text x="{_LEFT}" y="22" font-weight="bold">The first call in a fresh process, {what}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 8}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{head}\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    with open(sys.argv[2], "w") as file:
        file.write(svg(rows))


if __name__ == "__main__":
    main()

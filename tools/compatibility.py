"""Writes docs/compatibility.md: what of torch.compile's surface works here, made of framelift's own table.

python tools/compatibility.py           write the page
python tools/compatibility.py --check   exit with 1 when the page is not what the table says
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

from compatibility_features import FEATURES, GROUPS
from compatibility_rows import TorchName, environment_rows, function_rows, option_rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compatibility.md"

_MEANING = """| verdict | meaning |
|---|---|
| works | as with TorchDynamo; a test shows it |
| torch | torch's own code does it, which framelift uses |
| warns | it has no effect here, and a warning says why, once |
| refused | an error says why |
| nothing | there is nothing that it would have to do here |"""


def _table(rows: dict[str, TorchName]) -> list[str]:
    found = ["| name | verdict | |", "|---|---|---|"]
    for name, row in sorted(rows.items()):
        note = row.note + (f" (`tests/{row.test}`)" if row.test else "")
        found.append(f"| `{name}` | {row.verdict.value} | {note.strip().replace('|', chr(92) + '|')} |")
    return found


def _features() -> list[str]:
    counts: dict[str, collections.Counter[str]] = {group: collections.Counter() for group in GROUPS}
    for group, _, verdict, _ in FEATURES:
        counts[group][verdict] += 1
    verdicts = ("works", "partly", "not", "does not apply")
    lines = ["| group | " + " | ".join(verdicts) + " |", "|---|" + "---|" * len(verdicts)]
    lines += [f"| {group} | " + " | ".join(str(counts[group][v]) for v in verdicts) + " |" for group in GROUPS]
    for group in GROUPS:
        lines += ["", f"### {group}", "", "| feature | verdict | what is missing, or different |", "|---|---|---|"]
        lines += [f"| {name} | {verdict} | {note} |" for of, name, verdict, note in FEATURES if of == group]
    return lines


def page() -> str:
    """The page."""
    return (
        "\n".join(
            [
                "# What of torch.compile works",
                "",
                "A program that was written for torch.compile finds each of these names. None of them does nothing in "
                "silence. The page is made of the table in `tools/compatibility_rows.py`, which a test compares with "
                "the names of each torch from 2.11 to 2.15; the older ones lack some of these.",
                "",
                _MEANING,
                "",
                "## Features",
                "",
                *_features(),
                "",
                "## Functions",
                "",
                *_table(function_rows()),
                "",
                "## Environment variables",
                "",
                *_table(environment_rows()),
                "",
                "## Options of torch._dynamo.config",
                "",
                *_table(option_rows()),
            ]
        )
        + "\n"
    )


def main() -> int:
    text = page()
    current = PAGE.exists() and PAGE.read_text() == text
    if "--check" in sys.argv:
        print("current" if current else "docs/compatibility.md is not current; run python tools/compatibility.py")
        return 0 if current else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

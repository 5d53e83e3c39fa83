"""Writes docs/compatibility.md: what of torch.compile's surface works here, made of framelift's own table.

python tools/compatibility.py           write the page
python tools/compatibility.py --check   exit with 1 when the page is not what the table says
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from compatibility_features import FEATURES, GROUPS
from compatibility_rows import TorchName, environment_rows, function_rows, option_rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compatibility.md"

_HEAD = """# What of torch.compile works

Every function, option and environment variable of torch.compile, from torch 2.11 to 2.15, has a row here.
Nothing is ignored silently: what has no effect warns, and what cannot be done is an error. A test compares the rows
with the names of each version (older ones lack some). Each row that says *works* names a test in
`tools/compatibility_rows.py`.

| verdict | meaning |
|---|---|
| works | as with TorchDynamo; a test shows it |
| torch | torch's own code does it, which framelift uses |
| warns | it has no effect here, and one warning says why |
| refused | an error says why |
| nothing | there is nothing to do for it here |

## What may surprise you

Features that are missing in part, and names that are refused or have no effect. The sections below list everything.
"""


def _table(rows: dict[str, TorchName]) -> list[str]:
    found = ["| name | verdict | |", "|---|---|---|"]
    return found + [f"| `{name}` | {row.verdict.value} | {_note(row)} |" for name, row in sorted(rows.items())]


def _note(row: TorchName) -> str:
    return row.note.replace("|", chr(92) + "|")


def _by_reason(rows: dict[str, TorchName]) -> list[str]:
    """What is refused or has no effect, by the reason why."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, row in sorted(rows.items()):
        if row.verdict.value in ("warns", "refused"):
            found.setdefault((row.verdict.value, _note(row)), []).append(f"`{name}`")
    lines = ["| verdict | why | names |", "|---|---|---|"]
    return lines + [f"| {verdict} | {why} | {' '.join(names)} |" for (verdict, why), names in sorted(found.items())]


def _features(groups: Sequence[str], *without: str) -> list[str]:
    lines = ["| feature | verdict | what is missing, or different |", "|---|---|---|"]
    return lines + [
        f"| {name} | {verdict} | {note} |"
        for group in groups
        for of, name, verdict, note in FEATURES
        if of == group and verdict not in without
    ]


def page() -> str:
    """The page: first what does not work as with TorchDynamo, then everything."""
    names = function_rows() | environment_rows() | option_rows()
    rows = [*_HEAD.splitlines(), "", *_features(GROUPS, "works", "does not apply"), ""]
    rows += [*_by_reason(names), "", "## Features"]
    for group in GROUPS:
        rows += ["", f"### {group}", "", *_features([group])]
    for title, found in {
        "Functions": function_rows(),
        "Environment variables": environment_rows(),
        "Options of torch._dynamo.config": option_rows(),
    }.items():
        rows += ["", f"## {title}", "", *_table(found)]
    return "\n".join(rows) + "\n"


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

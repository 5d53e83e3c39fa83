"""Writes docs/reasons/: one page per declared reason, made of its declaration, its fix and, where there is one, its
example.

python tools/reason_pages.py           write the pages python tools/reason_pages.py --check   exit with 1 when a
page is not what its declaration says
"""

from __future__ import annotations

import sys
from pathlib import Path

from framelift.report.reason_page import reason_page
from framelift.vocabulary.reasons import REASONS

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reasons"


def page(reason: str) -> str:
    """The page of one reason on the site."""
    links = "[All reasons](index.md) · [How to find and remove a break](../howto/find_a_break.md)"
    return f"{reason_page(reason)}\n{links}\n"


def index() -> str:
    """The list of all reasons."""
    rows = [f"| [{reason.id}]({reason.id}.md) | {reason.sentence.format(detail='…')} |" for reason in REASONS.values()]
    return (
        "\n".join(
            [
                "# Reasons",
                "",
                (
                    "Where something cannot be captured, framelift names one of these. Each has a page with "
                    "what to do about it."
                ),
                "",
                "| reason | meaning |",
                "|---|---|",
                *rows,
            ]
        )
        + "\n"
    )


def pages() -> dict[Path, str]:
    """Every page that goes in the folder."""
    return {FOLDER / "index.md": index(), **{FOLDER / f"{reason}.md": page(reason) for reason in REASONS}}


def main() -> int:
    wanted = pages()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    extra = [path for path in FOLDER.glob("*.md") if path not in wanted]
    if "--check" in sys.argv:
        for path in (*stale, *extra):
            print(f"{path.name} is not current; run make reasons")
        return bool(stale or extra)
    for path in stale:
        path.write_text(wanted[path])
    for path in extra:
        path.unlink()
    print(f"{len(stale)} pages written, {len(extra)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

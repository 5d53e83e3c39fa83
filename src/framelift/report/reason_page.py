"""The page of a reason: what it means, what to do about it and, where there is one, an example.

`python -m framelift explain ID` prints it, the documentation site shows it, and reports show its example.
"""

from __future__ import annotations

import functools
from pathlib import Path

from ..vocabulary.break_fixes import FIXES
from ..vocabulary.reasons import REASONS

#: a file for each reason that has an example: `broken` has a graph break for the reason, `fixed` has none
EXAMPLES = Path(__file__).parent / "examples"


@functools.cache
def example_of(reason: str) -> str:
    """The source of a reason's example; "" where it has none."""
    path = EXAMPLES / f"{reason}.txt"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def reason_page(reason: str) -> str:
    """The page, in Markdown."""
    declared = REASONS[reason]
    parts = [f"# {reason}", f"> {declared.sentence.format(detail='...')}.", "## What to do", declared.hint]
    if reason in FIXES:
        parts.append(f"In a report, with your expression in place of `expr`: {FIXES[reason].format(e='expr')}")
    if example := example_of(reason):
        parts += [
            "## Example",
            "`broken` has a graph break for this reason, `fixed` has none.",
            f"```python\n{example}\n```",
        ]
    return "\n\n".join(parts) + "\n"

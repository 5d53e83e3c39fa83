"""Writes vocabulary/option_types.pyi: the options of `framelift.config` for type checkers and editors.

python tools/option_types.py
"""

from __future__ import annotations

import json
from pathlib import Path

from framelift.vocabulary.options import OPTIONS, Option

STUB = Path(__file__).resolve().parents[1] / "src" / "framelift" / "vocabulary" / "option_types.pyi"


def _type(option: Option) -> str:
    if option.by_torch:
        return "Any"
    names = {set: "set[Callable[..., object]]"}
    if option.choices:
        names[str] = f"Literal[{', '.join(map(json.dumps, option.choices))}]"
    return " | ".join(names.get(kind, kind.__name__) for kind in (type(option.default), *option.also))


def text() -> str:
    """The stub: a variable for each option that has an effect, and all of them as named arguments."""
    rows = [f"{name}: {_type(option)}" for name, option in OPTIONS.items() if not option.ignored]
    return "\n".join(
        [
            "# The options of framelift.config, for type checkers.  Made by `python tools/option_types.py`.",
            "from collections.abc import Callable",
            "from typing import Any, Literal, TypedDict",
            "",
            *rows,
            "",
            "class Options(TypedDict, total=False):",
            *(f"    {row}" for row in rows),
            "",
        ]
    )


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")

"""Each module that fills the tables of the call rule is loaded with them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import framelift
from framelift.rehearsal import registered

PACKAGE = Path(framelift.__file__).parent
FILLS = re.compile(r"^\s*@(substitute|rule)\(", re.MULTILINE)


def test_modules_with_substitutes_and_rules_are_loaded() -> None:
    assert registered
    filling = {
        ".".join(("framelift", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if FILLS.search(path.read_text(encoding="utf8"))
    }
    assert len(filling) > 30 and filling <= set(sys.modules)

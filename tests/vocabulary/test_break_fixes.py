"""Fixes of graph breaks: code between backticks is Python, and is about the program's own expression."""

from __future__ import annotations

import re

import pytest

from framelift.vocabulary.break_fixes import CALLABLES, CLOCK, FIXES, LIBRARIES, break_fix
from framelift.vocabulary.places import is_python
from framelift.vocabulary.reasons import REASONS


@pytest.mark.parametrize("text", [*FIXES.values(), *CALLABLES.values(), *LIBRARIES.values()])
def test_code_in_a_fix_is_python(text: str) -> None:
    shown = re.findall(r"`([^`]*)`", text.format(e="x.sum() > 0", f="info"))
    assert shown and all(map(is_python, shown))


def test_fixes_are_for_declared_reasons() -> None:
    assert {name.partition(" in ")[0] for name in FIXES} <= set(REASONS)


def test_a_fix_names_the_expression() -> None:
    assert "`torch.where(x > 0, a, b)`" in break_fix("tensor-bool", "x > 0", statement="if")
    assert "torch.while_loop" in break_fix("tensor-bool", "x > 0", statement="while")


def test_libraries_come_before_callables_and_these_before_reasons() -> None:
    below = ("logging/__init__.py", "info")
    assert "logging.info" in break_fix("unknown-callable", "log(x)", "print", below=below)
    assert "reorderable_logging_functions.add(print)" in break_fix("unknown-callable", "print(x)", "print")
    assert break_fix("unknown-callable", "time()", f"time.time ({CLOCK})").startswith("Move `time()` outside")
    assert "torch.library.custom_op" in break_fix("unknown-callable", "f(x)", "f")


def test_what_is_no_expression_is_answered_with_the_hint_of_the_reason() -> None:
    for expression in ("", "if x:"):
        assert break_fix("tensor-bool", expression) == REASONS["tensor-bool"].hint
    assert break_fix("no such reason", "x") == ""

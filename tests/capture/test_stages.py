"""What wraps graphs and entries is declared in tables.

Stages apply in their order, the first innermost, and where they say so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.capture.around import stages
from framelift.capture.around.stages import (
    AROUND_CALL,
    AROUND_ENTRY,
    AROUND_GRAPH,
    AROUND_PLAIN_ENTRY,
    AROUND_RUN,
    Stage,
    wrapped,
)

CAPTURE = Path(framelift.__file__).parent / "capture"
TABLES = {
    "run": AROUND_RUN,
    "graph": AROUND_GRAPH,
    "call": AROUND_CALL,
    "entry": AROUND_ENTRY,
    "plain": AROUND_PLAIN_ENTRY,
}


def test_the_first_stage_is_the_innermost() -> None:
    table = [
        Stage(name, lambda context: name in context, lambda inner, context, name=name: f"{name}({inner})")
        for name in "abc"
    ]
    table = [Stage(one.name, lambda context, one=one: one.name in context, one.wrap) for one in table]
    assert wrapped(table, "x", "abc") == "c(b(a(x)))"
    assert wrapped(table, "x", "ca") == "c(a(x))"
    assert wrapped(table, "x", "") == "x"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_names_are_given_once(table: tuple[Stage[Any], ...]) -> None:
    assert len({stage.name for stage in table}) == len(table)


def applied(monkeypatch: pytest.MonkeyPatch, function: Any, *args: Any) -> list[str]:
    """The names of the stages that the first call of a function puts around its entry."""
    found: list[str] = []
    for name in ("AROUND_ENTRY", "AROUND_CALL"):
        table = tuple(
            Stage(
                one.name,
                one.applies,
                lambda inner, context, one=one: found.append(one.name) or one.wrap(inner, context),
            )
            for one in getattr(stages, name)
        )
        monkeypatch.setattr(framelift.capture.compile_entry, name, table)
    framelift.compile(function, backend="eager")(*args)
    return found


def test_an_entry_without_effects_has_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert applied(monkeypatch, lambda x: x.sin() + 1, torch.ones(3)) == []


def test_stages_of_a_program_with_many_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        torch.set_grad_enabled(False)
        x.add_(y)
        return x * torch.rand(3, generator=generator)

    with torch.enable_grad():
        found = applied(monkeypatch, f, torch.ones(3), torch.ones(3), torch.Generator())
    assert found == [
        "generators around the graph",
        "generators given",
        "undone when it fails",
        "torch's state left changed",
        "shared memory as captured",
    ]


def test_nothing_else_wraps_entries() -> None:
    """The wrappers of the tables are called by the tables alone."""
    names = (
        "undoing",
        "leaving",
        "unseen_by_hooks",
        "watching_memory",
        "watching_hooks",
        "until_ready",
        "handing_over",
        "putting_back",
        "raising",
        "noting_failures",
        "checked",
        "keeping_settings",
        "under",
    )
    users = {
        name: sorted(
            path.name
            for path in CAPTURE.rglob("*.py")
            if re.search(rf"(?<!def )\b{name}\(", path.read_text(encoding="utf8"))
        )
        for name in names
    }
    assert users == {name: ["stages.py"] for name in names}

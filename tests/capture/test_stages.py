"""What wraps graphs and entries is declared in tables.

Stages apply in their order, the first innermost, and where they say so.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.capture import compile_entry
from framelift.capture.around import stages
from framelift.capture.around.stages import (
    AROUND_ENTRY,
    AROUND_GRAPH,
    AROUND_PLAIN_ENTRY,
    AROUND_RUN,
    Stage,
    entry_with,
    wrapped,
)
from framelift.exits import EntryPlan, Lines, build_entry

CAPTURE = Path(framelift.__file__).parent / "capture"
TABLES = {"run": AROUND_RUN, "graph": AROUND_GRAPH, "entry": AROUND_ENTRY, "plain": AROUND_PLAIN_ENTRY}


def test_the_first_stage_is_the_innermost() -> None:
    table = [
        Stage(name, lambda context: name in context, lambda inner, context, name=name: f"{name}({inner})")
        for name in "abc"
    ]
    table = [Stage(one.name, lambda context, one=one: one.name in context, one.wrap) for one in table]
    assert wrapped(table, "x", "abc") == "c(b(a(x)))"
    assert wrapped(table, "x", "ca") == "c(a(x))"
    assert wrapped(table, "x", "") == "x"


LOG: list[str] = []
PLAN = EntryPlan("def entry(inputs, externals):\n    return inputs[0]\n", {}, (), ())


def stage_line(name: str) -> Lines:
    return Lines(before=(f"stage_log.append({name!r})",), names={"stage_log": LOG})


def stage_wrapper(name: str) -> Any:
    def wrap(inner: Any, context: str) -> Any:
        def run(inputs: Any, externals: Any) -> Any:
            LOG.append(name)
            return inner(inputs, externals)

        return run

    return wrap


@pytest.mark.parametrize("kinds", ["lll", "lwl", "wlw", "llw", "wll", "www"])
def test_lines_and_wrappers_keep_the_order_of_the_table(kinds: str) -> None:
    table = [
        Stage(name, lambda context, name=name: name in context, lines=lambda context, name=name: stage_line(name))
        if kind == "l"
        else Stage(name, lambda context, name=name: name in context, stage_wrapper(name))
        for name, kind in zip("abc", kinds)
    ]
    for applied in ("abc", "ac", "b", ""):
        LOG.clear()
        build = functools.partial(build_entry, PLAN, None, "test", (), None)
        entry, run = entry_with(table, build, "test", applied)
        assert run((5,), ()) == 5 and LOG == sorted(applied, reverse=True)
        assert entry.__source__.endswith("return inputs[0]\n")


def test_lines_around_a_body() -> None:
    lines = Lines(before=("a()",), block="try:", after=("finally:", "    b()"), through="stage_c")
    assert lines.around(["if x:", "    return y", "return (1, 2)"]) == [
        "a()",
        "try:",
        "    if x:",
        "        return y",
        "    return stage_c((1, 2))",
        "finally:",
        "    b()",
    ]


def test_names_of_stages_are_no_names_of_the_program() -> None:
    """A class whose name is one that the lines of a stage use."""

    class stage_failed:  # noqa: N801
        pass

    def program(x: torch.Tensor) -> tuple[Any, torch.Tensor]:
        return stage_failed, torch.nn.functional.dropout(x, 0.5)

    compiled = framelift.compile(program, backend="eager")
    assert compiled(torch.ones(3))[0] is stage_failed
    source = compiled.entries[0].info.source
    assert "k_stage_failed" in source and "stage_failed.waits = False" in source


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_names_are_given_once(table: tuple[Stage[Any], ...]) -> None:
    assert len({stage.name for stage in table}) == len(table)
    assert all((stage.wrap is None) != (stage.lines is None) for stage in table)


def applied(monkeypatch: pytest.MonkeyPatch, function: Any, *args: Any) -> list[str]:
    """The names of the stages that the first call of a function puts around its entry."""
    found: list[str] = []
    table = tuple(
        dataclasses.replace(
            one, applies=lambda context, one=one: one.applies(context) and (found.append(one.name) or True)
        )
        for one in stages.AROUND_ENTRY
    )
    monkeypatch.setattr(compile_entry, "AROUND_ENTRY", table)
    framelift.compile(function, backend="eager")(*args)
    return found


def test_an_entry_without_effects_has_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert applied(monkeypatch, lambda x: x.sin() + 1, torch.ones(3)) == []


def test_stages_of_a_program_with_many_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        x.add_(y)
        return x * 2

    with torch.enable_grad():
        found = applied(monkeypatch, f, torch.ones(3), torch.ones(3))
    assert found == ["undone when it fails", "torch's state left changed", "shared memory as captured"]


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
    only = {name: ["stages.py"] for name in names}
    assert users == {**only, "putting_back": ["stages.py", "symbolic_entries.py"]}  # which asks, and runs nothing

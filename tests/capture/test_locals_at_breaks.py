"""`locals()` and similar looks at a frame with graph breaks: one dictionary a frame, brought up to date by each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


def same_dictionary(x: Any) -> Any:
    a = 1
    d = locals()
    framelift.graph_break()
    b = 2
    e = locals()
    return d is e, sorted(d), sorted(e), a + b


def by_vars_and_dir(x: Any) -> Any:
    d = vars()
    framelift.graph_break()
    c = 1
    return sorted(d), dir(), sorted(vars()), c


def by_the_frame(x: Any) -> Any:
    d = sys._getframe().f_locals
    framelift.graph_break()
    c = 1
    e = sys._getframe().f_locals
    return d is e, sorted(d), sorted(e), c


def by_the_callers_frame(x: Any) -> Any:
    def look() -> Any:
        return sys._getframe(1).f_locals

    d = look()
    framelift.graph_break()
    c = 1
    look()
    return d.get("c"), c


def by_exec_and_eval(x: Any) -> Any:
    exec("q = 1")
    framelift.graph_break()
    c = 2
    return eval("c + 1"), "q" in locals(), c


def in_a_loop(x: Any) -> Any:
    d = locals()
    for i in range(3):
        framelift.graph_break()
        locals()
    return d.get("i"), i


def behind_a_break(x: Any) -> Any:
    framelift.graph_break()
    d = locals()
    y = x * 2
    framelift.graph_break()
    locals()
    return sorted(d), y.sum().item()


def written_to(x: Any) -> Any:
    d = locals()
    d["more"] = 5
    framelift.graph_break()
    return locals().get("more")


def of_a_class_body(x: Any) -> Any:
    class Body:
        a = 1
        d = dict(locals())

    framelift.graph_break()
    return "a" in Body.d, "d" in Body.d


@pytest.mark.parametrize(
    "fn",
    [
        same_dictionary,
        by_vars_and_dir,
        by_the_frame,
        by_the_callers_frame,
        by_exec_and_eval,
        in_a_loop,
        behind_a_break,
        written_to,
        of_a_class_body,
    ],
)
def test_looks_at_locals(fn: Callable[[Any], Any]) -> None:
    x = torch.ones(2)
    compiled = framelift.compile(lambda x: (fn(x), x + 1), backend="eager"), framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert compiled[0](x)[0] == fn(x) and compiled[1](x) == fn(x)


def test_parts_before_the_look_are_captured() -> None:
    def fn(x: Any) -> Any:
        y = x * 2
        framelift.graph_break()
        d = locals()
        framelift.graph_break()
        return sorted(d), y + 1

    x = torch.ones(2)
    compiled = framelift.compile(fn, backend="eager")
    assert compiled(x)[0] == fn(x)[0]
    assert framelift.stats()["graphs"] == 1

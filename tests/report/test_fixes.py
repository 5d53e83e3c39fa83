"""Fixes are Python, and sentences name the program: over programs with breaks, in reports, errors and logs."""

from __future__ import annotations

import ast
import logging
import re
import warnings

import break_corpus
import pytest
import torch
from break_corpus import FUNCTIONS, MODULES

import framelift
from framelift.report import recompile_fixes
from framelift.vocabulary import break_fixes
from framelift.vocabulary.reasons import REASONS

X = torch.ones(2, 3)
#: what no sentence says: how torch calls a module, its private names, nothing
NEVER = ("module.py", "forward_call(", "_call_impl", "TensorBase", "__float__", "_VariableFunctions", "splits 0")


def code_in(fix: str) -> list[str]:
    """The pieces of code in a fix.  None of it stands outside backticks."""
    parts = fix.split("`")
    assert len(parts) % 2 == 1, fix
    outside = " ".join(parts[::2])
    assert not re.search(r"\w\(|\b(torch|framelift|numpy)\.|\w=\w", outside), fix
    return parts[1::2]


def check(fix: str) -> None:
    assert fix and "...`" not in fix
    for code in code_in(fix):
        ast.parse(code)


@pytest.mark.parametrize("make", [*FUNCTIONS, *MODULES], ids=lambda one: one.__name__)
def test_fixes_of_breaks_are_python_everywhere(make, caplog, capsys) -> None:
    framelift.reset()
    program = make() if make in MODULES else make
    with caplog.at_level(logging.INFO, "framelift.breaks"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = framelift.compile(program, backend="eager")
        compiled(X)
        said = []
        try:  # numbers out of tensors are no graph breaks with fullgraph=True
            framelift.compile(program, backend="eager", fullgraph=True)(X)
        except framelift.exc.Unsupported as error:
            said = [str(error)]
    report = compiled.report()
    said += [report.to_text(), str(compiled)]
    said += [record.getMessage() for record in caplog.records if record.name == "framelift.breaks"]
    fixes = [one.fix for one in report.breaks]
    fixes += [fix for text in said for fix in re.findall(r"^ *fix: (.*)", text, re.M)]
    assert len(fixes) > 2
    for fix in fixes:
        check(fix)
    for text in said:
        assert not [word for word in NEVER if word in text], text
    assert all(one.source is not None and one.source.path == break_corpus.__file__ for one in report.breaks)


@pytest.mark.parametrize(
    ("program", "expression"),
    [
        (break_corpus.branch_on_a_variable, "positive.any()"),
        (break_corpus.branch_over_lines, "positive.any()"),
        (break_corpus.branch_on_a_name, "positive"),
        (break_corpus.conditional, "x.any()"),
        (break_corpus.either, "x.any()"),
        (break_corpus.negated, "x.any()"),
        (break_corpus.item_over_lines, "x.sum().item()"),
        (break_corpus.loop_while, "x.sum() < 10"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_expression_is_what_is_looked_at(program, expression) -> None:
    """Not the statement that has it, nor the last of its lines."""
    found = framelift.dry_run(program, X).breaks[0]
    assert found.source.expression == expression
    if found.reason == "tensor-bool":
        assert f"`torch.where({expression}, a, b)`" in found.fix
        assert ("torch.while_loop" in found.fix) == (program is break_corpus.loop_while)


def test_a_timer_is_moved_outside() -> None:
    compiled = framelift.compile(break_corpus.timed, backend="eager")
    compiled(X)
    first, second = compiled.report().breaks
    assert first.fix == second.fix and first.fix.startswith("Move `time.time()` outside the compiled function")
    assert first.cost.startswith("splits no graph") and second.cost.startswith("splits 1 graph in 1 function")


def test_logging_names_the_method_that_is_called() -> None:
    (found,) = framelift.dry_run(break_corpus.logged, X).breaks
    assert "`framelift.config.ignore_logging_functions.add(logging.Logger.warning)`" in found.fix
    with framelift.config.patch(ignore_logging_functions={logging.Logger.warning}):
        assert not framelift.dry_run(break_corpus.logged, X).breaks


def test_free_variables_have_their_names() -> None:
    def make():
        n = 1

        def scaled(x):
            return x * n

        def put(value):
            nonlocal n
            n = value

        return scaled, put

    scaled, put = make()
    compiled = framelift.compile(scaled, backend="eager", dynamic=False)
    compiled(X)
    put(2)
    compiled(X)
    (found,) = compiled.report().recompiles
    assert found.origin == "n" and "n is now 2, was 1" in str(compiled.recompiles()[0])


def test_every_declared_fix_is_python() -> None:
    texts = [*break_fixes.FIXES.values(), *break_fixes.CALLABLES.values(), *break_fixes.LIBRARIES.values()]
    for text in texts:
        check(text.format(e="x.sum()", f="Logger.warning"))
    for reason in REASONS.values():
        check(reason.hint)
    for kind in [*recompile_fixes._RECOMPILES, "another"]:
        for old, new in (("1", "2"), ("None", "a tensor"), ("size (2,)", "size (3,)"), ("True", "False")):
            check(recompile_fixes.recompile_fix(kind, "self.scale", old, new))
    for kind in [*recompile_fixes._CONSTANTS, "another"]:
        check(recompile_fixes.specialisation_fix(kind, "range(n)"))
        check(recompile_fixes.specialisation_fix(kind, "for i in range(n):"))
    for fix in (*map(recompile_fixes.refusal_fix, recompile_fixes._REFUSALS), recompile_fixes.result_fix("x.item()")):
        check(fix)
    for kind in ("TENSOR", "EQ"):
        check(recompile_fixes.settled_fix(kind, "n"))

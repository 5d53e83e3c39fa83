"""Six planted causes.

Text, HTML and JSON name each with its line and a fix, and the fix, applied, removes it and nothing else.
"""

from __future__ import annotations

import inspect
import json

import planted_model
import pytest
import torch
from planted_model import FIXED, PLANTED, Planted, drive

import framelift

#: part -> (list of the report it must be in, its planted line, the value or expression it is about)
EXPECTED = {
    "gate": ("breaks", "if x.mean() > 0:", "x.mean() > 0"),
    "rescale": ("breaks", "return x / x.abs().max().item()", "x.abs().max().item()"),
    "stamp": ("breaks", "return x + time.time() * 0", "time.time()"),
    "temper": ("recompiles", 'return x / given["temperature"]', "given['temperature']"),
    "recall": ("recompiles", 'return x + len(given["history"])', "given['history']"),
    "repeat": ("specialisations", 'for _ in [0] * given["n"]:', "given['n']"),
}


def line_of(part: str) -> int:
    """The planted line."""
    lines, start = inspect.getsourcelines(PLANTED[part])
    return next(start + i for i, line in enumerate(lines) if EXPECTED[part][1] in line)


def fix_of(part: str) -> str:
    """What the report says to do: the docstring of the repaired part, on one line."""
    return " ".join(FIXED[part].__doc__.split())


@pytest.fixture(scope="module")
def reports():
    """One run of the planted model, one for each fix alone, one with all of them: (report, results)."""
    found = {}
    for fixed in ((), *((name,) for name in PLANTED), tuple(PLANTED)):
        framelift.reset()
        torch.manual_seed(0)
        compiled = framelift.compile(Planted(fixed), backend="eager")
        found[fixed] = drive(compiled, fixed), compiled.report()
    return found


def about(row: dict) -> str:
    """What a row of a report is about."""
    return row["origin"] if "origin" in row else row["source"]["expression"]


def causes(document: dict) -> dict[str, list[dict]]:
    """For each planted part, what a report says of it."""
    found: dict[str, list[dict]] = {}
    for part, (kind, _, what) in EXPECTED.items():
        rows = [
            row
            for row in document[kind]
            if row["source"] and row["source"]["path"] == planted_model.__file__ and about(row) == what
        ]
        found[part] = [row for row in rows if kind != "specialisations" or row["kind"] == "fixed"]
    return found


def test_json_and_html_name_all_six(reports) -> None:
    _, report = reports[()]
    page = report.to_html()
    for document in (json.loads(report.to_json()), json.loads(page.split('id="data">')[1].split("</script>")[0])):
        found = causes(document)
        for part, (kind, line, _) in EXPECTED.items():
            assert len(found[part]) == 1 or kind == "specialisations" and found[part], (
                f"{part} is missing, or named more than once"
            )
            row = found[part][0]
            assert row["source"]["line"] == line_of(part) and line in row["source"]["caret"]
            assert fix_of(part) in (row["how"] if kind == "specialisations" else row["fix"])


def test_text_names_all_six(reports) -> None:
    text = reports[()][1].to_text()
    for part, (kind, line, what) in EXPECTED.items():
        assert (line if kind != "specialisations" else what) in text and fix_of(part) in text, part


@pytest.mark.parametrize("part", PLANTED)
def test_each_fix_removes_its_cause_and_no_other(reports, part) -> None:
    found = causes(reports[(part,)][1].to_dict())
    assert not found[part]
    assert all(found[other] for other in PLANTED if other != part)


def test_all_fixes_leave_one_graph_per_call(reports) -> None:
    _, report = reports[tuple(PLANTED)]
    assert not report.breaks and {one.origin for one in report.recompiles} <= {
        "given['n']"
    }  # symbolic from its first change on
    assert report.captures == report.graphs == 2


def test_repaired_or_not_the_model_computes_the_same(reports) -> None:
    torch.manual_seed(0)
    plain = drive(Planted())
    for results, _ in reports.values():
        for got, wanted in zip(results, plain, strict=True):
            torch.testing.assert_close(got, wanted)

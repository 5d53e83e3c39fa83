"""Six planted causes: text, HTML and JSON name each with its line and a fix, and the fix, applied, removes it and nothing else."""

from __future__ import annotations

import inspect
import json

import planted_model
import pytest
import torch
from planted_model import FIXED, PLANTED, Planted, drive

import framelift

#: part -> (list of the report it must be in, a text of the line, a word of the fix)
EXPECTED = {
    "gate": ("breaks", "if x.mean() > 0:", "torch.where(x.mean() > 0, a, b)"),
    "rescale": ("breaks", "return x / x.abs().max().item()", "Keep the value as a tensor"),
    "stamp": ("breaks", "return x + time.time() * 0", "Call `time.time()` before"),
    "temper": ("recaptures", 'return x / settings["temperature"]', "keep it in a tensor"),
    "recall": ("recaptures", "return x + len(history)", "keep it at one length, or stack its contents into a tensor"),
    "repeat": ("specialisations", "for _ in [0] * n:", "captures again"),
}


def lines_of(part: str) -> set[int]:
    """The line of the planted text, and the line that hands the value in: arguments are read where they are first used."""
    places = ((PLANTED[part], EXPECTED[part][1]), (Planted.forward, f'parts["{part}"]'))
    return {start + i for function, text in places for lines, start in (inspect.getsourcelines(function),) for i, line in enumerate(lines) if text in line}


@pytest.fixture(scope="module")
def reports():
    """One run of the planted model, and one for each fix alone."""
    found = {}
    for fixed in ((), *((name,) for name in PLANTED), tuple(PLANTED)):
        framelift.reset()
        torch.manual_seed(0)
        compiled = framelift.compile(Planted(fixed), backend="eager")
        drive(compiled, fixed)
        found[fixed] = (compiled.report(), compiled)
    return found


def causes(document: dict) -> dict[str, list[dict]]:
    """For each planted part, what a report says at its line.  A size or number that is free is no constant."""
    found: dict[str, list[dict]] = {}
    for part, (kind, _, _) in EXPECTED.items():
        rows = [row for row in document[kind] if row["source"] and row["source"]["path"] == planted_model.__file__ and row["source"]["line"] in lines_of(part)]
        if kind == "specialisations":
            rows = [row for row in rows if "n" in row["origin"] and "[0] * n" in row["source"]["expression"]]
        found[part] = rows
    return found


def test_json_and_html_name_all_six(reports) -> None:
    report, _ = reports[()]
    page = report.to_html()
    for document in (json.loads(report.to_json()), json.loads(page.split('id="data">')[1].split("</script>")[0])):
        found = causes(document)
        for part, (kind, line, fix) in EXPECTED.items():
            assert found[part], f"{part} is missing"
            row = found[part][0]
            assert line in row["source"]["caret"] or f'parts["{part}"]' in row["source"]["caret"]
            assert fix in (row["how"] if kind == "specialisations" else row["fix"])


def test_text_names_all_six(reports) -> None:
    text = reports[()][0].to_text()
    for part, (kind, line, _) in EXPECTED.items():
        shown = line if kind != "specialisations" else "[0] * n"
        assert shown in text or f'parts["{part}"]' in text, part


@pytest.mark.parametrize("part", PLANTED)
def test_each_fix_removes_its_cause_and_no_other(reports, part) -> None:
    found = causes(reports[(part,)][0].to_dict())
    assert not found[part]
    assert all(found[other] for other in PLANTED if other != part)


def test_all_fixes_leave_one_graph(reports) -> None:
    report, _ = reports[tuple(PLANTED)]
    assert not report.breaks and {one.origin for one in report.recaptures} <= {"n"}
    assert FIXED.keys() == PLANTED.keys()


def test_the_model_computes_the_same(reports) -> None:
    _, compiled = reports[()]
    given = (torch.ones(2, 4), {"temperature": 2.5}, [1, 1, 1], 5)
    assert torch.allclose(compiled(*given), compiled._orig_mod(*given))

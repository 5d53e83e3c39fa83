"""What pages and notebooks show: the same, words instead of guard kinds, compile time by who calls whom."""

from __future__ import annotations

import html
import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest
import torch

import framelift
from framelift.graph.metadata import fakes
from framelift.report.model import Report
from framelift.surface import cli

X = torch.ones(3, 4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + self.inner(x).relu()


class Stacked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(5))

    def forward(self, x, scale=None):
        for block in self.blocks:
            x = block(x)
        if x.sum() > 1e9:
            x = x / 2
        return x if scale is None else x * scale


@pytest.fixture(scope="module")
def report() -> Report:
    net = framelift.compile(Stacked(), backend="eager")
    net(X)
    net(X, 2)
    net(X, "<b>".count("b"))
    return net.report()


def test_a_notebook_shows_the_page(report) -> None:
    (shown,) = re.findall(r'^<iframe srcdoc="([^"]*)"[^>]*></iframe>$', report._repr_html_())
    assert html.unescape(shown) == report.to_html()


def test_what_compile_returns_shows_itself_in_a_notebook() -> None:
    def one_more(x):
        return x + 1

    for made in (
        framelift.compile(one_more, backend="eager"),
        framelift.compile(torch.nn.Linear(4, 4), backend="eager"),
        framelift.compile(one_more, backend="eager", verify=1),
    ):
        assert "&quot;graphs&quot;:0" in made._repr_html_()
        made(X)
        assert "&quot;graphs&quot;:1" in made._repr_html_()


def test_guards_are_shown_in_words(report) -> None:
    assert report.recompiles and not [one for one in report.recompiles if one.what == one.kind]
    assert not re.search(r"\b(TENSOR|EQ|TYPE|CALL)\b", report.to_text())


def test_equal_calls_are_one_span(report) -> None:
    """Below the function that calls them; what torch only passes on is left out."""
    spans = report.functions[0].captures[0].spans
    names = {one.name: one for one in spans}
    assert spans[0].name == "Stacked.forward" and spans[0].depth == 0
    assert names["Block.forward"].calls == 5 and names["Block.forward"].depth == 1
    assert not [one for one in spans if "_call_impl" in one.name and one.own < 0.5 * one.total]
    for above, below in zip(spans, spans[1:]):
        assert below.depth <= above.depth + 1 and below.total <= spans[0].total * 1.001


def test_imports_of_torch_are_nobodys_time(monkeypatch) -> None:
    """The first fake mode of a process imports for seconds: a row of its own, not the layer's that needed it first."""

    def imports() -> None:
        time.sleep(0.3)

    monkeypatch.setattr(fakes, "first_imports_of_torch", imports)
    fakes._imported.cache_clear()
    compiled = framelift.compile(torch.nn.Dropout(0.25), backend="eager")
    compiled(torch.ones(7, 3, 5, 11))
    rows = {one.name.rpartition(".")[2]: one for one in compiled.report().times}
    assert rows.pop("imports").own >= 0.3 and sum(one.own for one in rows.values()) < 0.3


def test_recursion_is_counted_once() -> None:
    def down(x, n):
        return down(x, n - 1) + 1 if n else x

    compiled = framelift.compile(lambda x: down(x, 60), backend="eager")
    compiled(X)
    report = compiled.report()
    (row,) = (one for one in report.times if one.name.endswith("down"))
    assert row.calls == 61 and row.total <= report.phases["rehearse"]


def test_none_and_a_tensor_are_expected() -> None:
    compiled = framelift.compile(lambda x, mask: x if mask is None else x * mask, backend="eager")
    compiled(X, None)
    compiled(X, X)
    (found,) = compiled.report().recompiles
    assert (
        "0x" not in str(found.changes)
        and found.fix == "Expected: one graph where mask is None, and one for other values."
    )


def _joined(tmp_path: pathlib.Path, *reports: Report) -> str:
    files = []
    for rank, one in enumerate(reports):
        one.save(tmp_path / f"r.rank{rank}.json")
        files.append(str(tmp_path / f"r.rank{rank}.json"))
    assert cli.main(["join", *files, "-o", str(tmp_path / "all.html")]) == 0
    return (tmp_path / "all.html").read_text()


def test_several_reports_are_one_page(tmp_path: pathlib.Path, report: Report) -> None:
    data = json.loads(_joined(tmp_path, report, report).split('id="data">')[1].split("</script>")[0])
    assert [pathlib.Path(one["name"]).name for one in data["reports"]] == ["r.rank0.json", "r.rank1.json"]
    assert data["reports"][1]["report"] == json.loads(report.to_json())


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', None])
def test_what_is_no_report_is_not_joined(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    if text is not None:
        (tmp_path / "r.json").write_text(text)
    assert cli.main(["join", str(tmp_path / "r.json"), "-o", str(tmp_path / "all.html")]) == 2
    assert "r.json" in capsys.readouterr().err and not (tmp_path / "all.html").exists()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_compares_reports(tmp_path: pathlib.Path, report: Report) -> None:
    other = framelift.compile(Stacked(), backend="eager")
    other(torch.ones(3, 4), 2)
    _joined(tmp_path, report, other.report())
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{tmp_path}/all.html"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split("<main")[1]
    assert "2 reports" in shown and "Recompiles that not all have" in shown and "only in" in shown
    assert "Breaks that not all have" not in shown


class Longer(Block):
    def forward(self, x):
        y = torch.tanh(x) + x.sin() * x.cos()
        return x + self.inner(torch.softmax(y, -1)).relu() * 2 - 1


def test_the_report_names_generated_code_and_folded_layers() -> None:
    net = framelift.compile(torch.nn.Sequential(*(Longer() for _ in range(6))), backend="inductor")
    with framelift.config.patch(repeated_layers="always"), torch.no_grad():
        net(X)
    (capture,) = net.report().functions[0].captures
    assert capture.generated and all("def call(" in pathlib.Path(one).read_text() for one in capture.generated)
    assert [one for one in capture.rewrites if "layers folded into equal ones" in one]
    assert capture.rewrites[0] in str(net.report())

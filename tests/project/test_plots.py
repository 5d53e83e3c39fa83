"""The figures of the benchmarks page: pictures are what their data say, fit, and are light or dark."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("plots", ROOT / "tools" / "plots.py")
assert _spec is not None and _spec.loader is not None
plots = importlib.util.module_from_spec(_spec)
sys.modules["plots"] = plots
_spec.loader.exec_module(plots)

SAID = {"title": "T", "command": "python t.py", "commit": "abc", "machine": "M"}


def _fits(picture: str) -> list[str]:
    """Texts that reach out of the picture, by a generous width of letters."""
    root = xml.fromstring(picture)
    width = float(root.attrib["viewBox"].split()[2])
    wide = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        length = len(text.text or "") * (6.0 if "note" in text.attrib.get("class", "") else 6.6)
        x, anchor = float(text.attrib["x"]), text.attrib.get("text-anchor")
        left = x - length if anchor == "end" else x - length / 2 if anchor == "middle" else x
        if left < 0 or left + length > width:
            wide.append(text.text or "")
    return wide


def test_pictures_are_current() -> None:
    made = plots.pictures()
    assert len(made) >= 5
    for path, text in made.items():
        assert path.read_text() == text, "run python tools/plots.py"
        assert not _fits(text)
        assert "prefers-color-scheme: dark" in text


def test_every_picture_of_the_page_has_data() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for path in plots.pictures():
        assert f"(pictures/{path.name})" in page


def test_a_corpus(tmp_path) -> None:
    rows = [
        {"name": f"m{n}", "framelift_capture": 1.0, "dynamo_capture": float(n), "framelift_call": 1e-6}
        for n in (1, 3, 9, 9, 70)
    ]
    rows += [{"name": "bad", "error": "E"}, {"name": "c", "framelift_call": 1e-6, "dynamo_call": 3e-5}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    picture = plots.svg({**SAID, "corpus": "corpus.jsonl"}, tmp_path)
    texts = [one.text for one in xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert any("CPU time of a capture: 7.0 times less" in one and "5 models" in one for one in texts)
    assert any("Overhead of a call: 30.0 times less" in one and "1 models" in one for one in texts)
    assert not _fits(picture) and picture.count("<rect") == 1 + 4 + 1


def test_figures_say_where_they_come_from(tmp_path) -> None:
    pairs = [{"name": "p", "framelift": 1, "dynamo": 2, "total": 3}]
    assert "1 of 3 framelift" in plots.svg({**SAID, "pairs": pairs}, tmp_path)
    for missing in SAID:
        with pytest.raises(ValueError, match="command"):
            plots.svg({**SAID, missing: "", "pairs": pairs}, tmp_path)

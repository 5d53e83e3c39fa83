"""A report as HTML: one page that needs nothing else."""

from __future__ import annotations

import html
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

from .model import FORMS, Report


def page(report: Report, title: str = "") -> str:
    """One self-contained page.  Its views are made in the browser from the report's JSON."""
    return _page(report.to_dict(), title or f"framelift: {report.name}")


def page_of_all(reports: Mapping[str, dict[str, Any]]) -> str:
    """One page over several reports, as of the ranks of a program: name -> the report as `to_dict` gives it."""
    rows = [{"name": name, "report": report} for name, report in reports.items()]
    return _page({"reports": rows}, f"framelift: {len(rows)} reports")


def _page(data: dict[str, Any], title: str) -> str:
    folder = importlib.resources.files(__package__) / "page"
    parts = {
        "style": "".join((folder / name).read_text("utf-8") for name in ("page.css", "cards.css")),
        "script": (folder / "page.js").read_text("utf-8"),
        "title": html.escape(title),
        "data": _embedded(data),
    }
    text = (folder / "page.html").read_text("utf-8")
    head, *rest = text.split("{{")
    for piece in rest:  # one pass: a part that contains braces is not looked at again
        name, _, tail = piece.partition("}}")
        head += parts[name] + tail
    return head


def _embedded(data: dict[str, Any]) -> str:
    """JSON inside a script element: nothing in it may end the element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


FORMS["html"] = page

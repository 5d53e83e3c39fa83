"""A report as HTML: one page that needs nothing else."""

from __future__ import annotations

import html
import importlib.resources
import json

from .model import FORMS, Report


def page(report: Report, title: str = "") -> str:
    """One self-contained page.  Its views are made in the browser from the report's JSON."""
    folder = importlib.resources.files(__package__) / "page"
    parts = {
        "style": "".join((folder / name).read_text("utf-8") for name in ("page.css", "cards.css")),
        "script": (folder / "page.js").read_text("utf-8"),
        "title": html.escape(title or f"framelift: {report.name}"),
        "data": _embedded(report),
    }
    text = (folder / "page.html").read_text("utf-8")
    head, *rest = text.split("{{")
    for piece in rest:  # one pass: a part that contains braces is not looked at again
        name, _, tail = piece.partition("}}")
        head += parts[name] + tail
    return head


def _embedded(report: Report) -> str:
    """JSON inside a script element: nothing in it may end the element."""
    return json.dumps(report.to_dict(), separators=(",", ":")).replace("<", "\\u003c")


FORMS["html"] = page

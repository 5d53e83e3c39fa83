"""A report as HTML: one page that needs nothing else, and a fragment for notebooks."""

from __future__ import annotations

import html
import importlib.resources
import json

from .model import FORMS, Report
from .text import lines

__all__ = ["fragment", "page"]


def page(report: Report, title: str = "") -> str:
    """One self-contained page.  Its views are made in the browser from the report's JSON."""
    folder = importlib.resources.files(__package__) / "page"
    parts = {
        "style": (folder / "page.css").read_text("utf-8"),
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


_COLOURS = {
    "title": "font-weight:600",
    "head": "font-weight:600",
    "bad": "color:#b3261e",
    "warn": "color:#8a5a00",
    "fix": "color:#1c6b3a",
    "caret": "color:#b3261e",
    "dim": "opacity:.65",
}


def fragment(report: Report) -> str:
    """For a notebook cell: the text, coloured, without scripts."""
    rows = [f'<span style="{_COLOURS.get(style, "")}">{html.escape(text)}</span>' for style, text in lines(report)]
    return f'<pre style="line-height:1.4">{chr(10).join(rows)}</pre>'


FORMS["html"] = page
FORMS["fragment"] = fragment

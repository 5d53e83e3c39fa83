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


def static_page(title: str, body: str) -> str:
    """One self-contained page without scripts, in the report's style, dark where the reader's system is."""
    head = f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
    style, dark = _style(), ':root[data-theme="dark"]'
    colors = style[style.index(dark) :].partition("}")[0] + "}"
    style += f"@media (prefers-color-scheme: dark) {{ {colors.replace(dark, ':root')} }}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{head}<style>{style}</style></head>'
        f"<body><main><h1>{html.escape(title)}</h1>{body}</main></body></html>\n"
    )


def _style() -> str:
    folder = importlib.resources.files(__package__) / "page"
    return (folder / "page.css").read_text("utf-8")


def _page(data: dict[str, Any], title: str) -> str:
    folder = importlib.resources.files(__package__) / "page"
    parts = {
        "style": _style(),
        "script": (folder / "page.js").read_text("utf-8"),
        "title": html.escape(title),
        # inside a script element nothing in it may end the element
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    text = (folder / "page.html").read_text("utf-8")
    head, *rest = text.split("{{")
    for piece in rest:  # one pass: a part that contains braces is not looked at again
        name, _, tail = piece.partition("}}")
        head += parts[name] + tail
    return head


def fragment(report: Report) -> str:
    """The page, for a cell of a notebook: its style and scripts are its own."""
    return f'<iframe srcdoc="{html.escape(page(report))}" style="width: 100%; height: 36rem; border: 0"></iframe>'


FORMS.update(html=page, fragment=fragment)


# ---- The timeline of a report in the format of Chrome's tracing page and Perfetto ----


def chrome_trace(report: Report) -> str:
    """The phases of all captures as complete events; times are microseconds since the first one."""
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "framelift"}}]
    for function in report.functions:
        for capture in function.captures:
            for phase in capture.phases:
                events.append(
                    {
                        "name": f"{phase.name}: {function.name}",
                        "cat": phase.name,
                        "ph": "X",
                        "ts": phase.start * 1e6,
                        "dur": phase.seconds * 1e6,
                        "pid": 1,
                        "tid": 1,
                        "args": {"capture": capture.id, "status": capture.status},
                    }
                )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

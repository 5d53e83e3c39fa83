"""A report in a notebook cell: the cards of the HTML page, without its script and its further views."""

from __future__ import annotations

import html
import importlib.resources
import re
from collections.abc import Iterator

from .model import FORMS, Break, RecompileCause, Refusal, Report, Source

_MOST = 12  # cards or rows of one kind
_CLASS = "framelift-report"
_RULE = re.compile(r"^([^@{}\n][^{}]*)\{", re.M)


def fragment(report: Report) -> str:
    """The report as a piece of HTML that brings its style and changes nothing else on the page."""
    rows = "".join(_parts(report))
    return f'<div class="{_CLASS}"><style>{_style()}</style>{rows}</div>'


def _style() -> str:
    """The page's colours and cards, for this piece alone."""
    folder = importlib.resources.files(__package__) / "page"
    cards = (folder / "cards.css").read_text("utf-8")
    return _RULE.sub(lambda rule: ", ".join(f".{_CLASS} {one.strip()}" for one in rule[1].split(",")) + " {", cards) + (
        folder / "notebook.css"
    ).read_text("utf-8")


def _parts(report: Report) -> Iterator[str]:
    recompiles = sum(one.times for one in report.recompiles)
    open_ones = any(not one.settled for one in report.recompiles)
    tiles = [
        ("breaks", len(report.breaks), "bad-text" if report.breaks else "ok"),
        ("recompiles", recompiles, "warn-text" if open_ones else "ok"),
        ("graphs", report.graphs, ""),
        ("operations", report.operations, ""),
        ("guards", report.guards, ""),
        ("calls served", report.calls, ""),
        ("compiling", _seconds(report.seconds), ""),
    ]
    yield f"<h3>{_e(report.name)}</h3><div class=tiles>"
    yield from (f'<div class=tile><b class="{style}">{n}</b><span>{name}</span></div>' for name, n, style in tiles)
    yield "</div>"
    yield from _section("Breaks", [_break(one) for one in report.breaks])
    yield from _section("Recompiles", [_recompile(one) for one in report.recompiles])
    yield from _section("No longer compiled", [_refusal(one) for one in report.refusals])
    yield '<p class=dim>Graphs, guards and times: <code>report.save("report.html")</code></p>'


def _section(title: str, cards: list[str]) -> Iterator[str]:
    if cards:
        yield f"<h4>{title}</h4>{''.join(cards[:_MOST])}"
    if len(cards) > _MOST:
        yield f"<p class=dim>… and {len(cards) - _MOST} more</p>"


def _break(one: Break) -> str:
    return (
        f"<div class='card bad'><b>{_e(one.sentence)}</b> <span class=tag>{_e(one.reason)}</span>{_source(one.source)}"
        f"<p class=fix>Fix: {_words(one.fix)}</p><p class=dim>Cost: {_e(one.cost)} · {_e(one.page)}</p></div>"
    )


def _recompile(one: RecompileCause) -> str:
    what = f"<code>{_e(one.origin)}</code> changed" if one.origin else f"Changed: {_e(one.what)}"
    tags = "".join(
        f" <span class=tag>{text}</span>"
        for text in (_e(one.what) if one.origin else "", "symbolic since then" if one.settled else "")
        if text
    )
    changes = "\n".join(
        f"<span class=old>- {_e(old)}</span>\n<span class=new>+ {_e(new)}</span>"
        for old, new in one.changes[-3:]
        if old or new
    )
    return (
        f"<div class='card{'' if one.settled else ' warn'}'><b>{what}, {one.times} "
        f"recompile{'' if one.times == 1 else 's'}</b>{tags}"
        + (f"<pre class=diff>{changes}</pre>" if changes else f"<p>{_e(one.sentence)}</p>")
        + f"{_source(one.source)}<p class=fix>Fix: {_words(one.fix)}</p></div>"
    )


def _refusal(one: Refusal) -> str:
    last = f"<p>Last: {_e(one.sentence)}</p>" if one.sentence else ""
    title = f"{_e(one.name)}: {one.calls} calls ran eagerly"
    return (
        f"<div class='card bad'><b>{title}</b>{_source(one.source)}{last}<p class=fix>Fix: {_words(one.fix)}</p></div>"
    )


def _source(source: Source | None) -> str:
    """The place, and its line with the expression marked."""
    if source is None:
        return ""
    where = f"<div class=dim>{_e(source.file)}:{source.line} in {_e(source.function)}</div>"
    line, _, caret = source.caret.partition("\n")
    start, end = caret.find("^"), caret.rfind("^") + 1
    if not line:
        return where
    if start < 0:
        return f"{where}<pre>{_e(line)}</pre>"
    return f"{where}<pre>{_e(line[:start])}<mark>{_e(line[start:end])}</mark>{_e(line[end:])}</pre>"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _e(text: str) -> str:
    return html.escape(text)


def _words(text: str) -> str:
    """A sentence, in which code stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", _e(text))


FORMS["fragment"] = fragment

"""A report as text: plain, or coloured by rich in a terminal.  Both are made of the same lines."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator

from .model import FORMS, Capture, Report, Source, many, took

Line = tuple[str, str]  # (style, text); styles are the keys of _STYLES
_STYLES = {
    "title": "bold",
    "head": "bold cyan",
    "bad": "bold red",
    "warn": "yellow",
    "fix": "green",
    "code": "",
    "caret": "red",
    "dim": "dim",
    "": "",
}
_MOST = 12  # rows of one kind before the rest is only counted
_MOST_TIMES = 6


def render(report: Report, *, colour: bool, width: int) -> str:
    """The report as text."""
    rows = list(lines(report))
    if colour:
        try:
            return _coloured(rows, width)
        except ImportError:
            pass
    return "\n".join(text for _, text in rows)


def _coloured(rows: list[Line], width: int) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width, force_terminal=True, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for style, text in rows:
            console.print(Text(text, style=_STYLES[style]))
    return captured.get().rstrip("\n")


def lines(report: Report) -> Iterator[Line]:
    """The report, line by line."""
    if report.is_empty:
        yield "title", f"{report.name}: nothing was called"
        return
    yield "title", f"{report.name}: {_overview(report)}"
    if report.phases:
        yield "dim", "  " + ", ".join(f"{name} {took(seconds)}" for name, seconds in report.phases.items())
    yield from _breaks(report)
    yield from _recompiles(report)
    yield from _refusals(report)
    yield from _functions(report)
    yield from _times(report)
    yield from _specialisations(report)


def _overview(report: Report) -> str:
    return (
        f"{many(report.graphs, 'graph')}, {many(report.operations, 'operation')}, "
        f"{many(len(report.breaks), 'break')}, "
        f"{many(sum(r.times for r in report.recompiles), 'recompile')}, {many(report.guards, 'guard')}, "
        f"{many(report.calls, 'call')} served, {report.seconds:.2f} s of compiling"
    )


def _source(source: Source | None) -> Iterator[Line]:
    if source is None:
        return
    yield "dim", f"    {source.file}:{source.line} in {source.function}"
    for number, text in enumerate(source.caret.splitlines()):
        yield ("caret" if number else "code"), f"      {text}"


def _breaks(report: Report) -> Iterator[Line]:
    if report.breaks:
        yield "head", "\nbreaks"
    for number, one in enumerate(report.breaks, 1):
        yield "bad", f"  {number}. {one.sentence} [{one.reason}]"
        yield from _source(one.source)
        if one.inner is not None:
            yield (
                "dim",
                f"    below it {one.inner.file}:{one.inner.line} in {one.inner.function}: {one.inner.expression}",
            )
        for link in one.provenance:
            where = f" ({link.source.file}:{link.source.line}: {link.source.expression})" if link.source else ""
            yield "dim", f"    from: {link.text}{where}"
        for caller in one.callers:
            yield "dim", f"    called at {caller.file}:{caller.line} in {caller.function}: {caller.expression}"
        for loop in one.loops:
            yield "dim", f"    in a loop ({loop.file}:{loop.line}) whose steps run eagerly because of it"
        yield "dim", f"    cost: {one.cost}"
        yield "fix", f"    fix: {one.fix}"
        yield "dim", f"    more: {one.page}"


def _recompiles(report: Report) -> Iterator[Line]:
    if report.recompiles:
        yield "head", "\nrecompiles"
    for one in report.recompiles:
        more = f" and {many(len(one.functions) - 1, 'further function')}" if len(one.functions) > 1 else ""
        yield (
            "warn",
            (
                f"  {one.origin or one.what} in {one.function}{more}: {many(one.times, 'recompile')}, "
                f"{took(one.seconds)}"
                f"{', symbolic since then' if one.settled else ''}"
            ),
        )
        for old, new in one.changes[-3:]:
            if old or new:
                yield "", f"    - {old}"
                yield "", f"    + {new}"
        if not any(old or new for old, new in one.changes):
            yield "", f"    {one.sentence}"
        yield from _source(one.source)
        yield "fix", f"    fix: {one.fix}"


def _refusals(report: Report) -> Iterator[Line]:
    if report.refusals:
        yield "head", "\nleft to eager mode"
    for one in report.refusals:
        called = f"{many(one.calls, 'call')} ran eagerly, {_LEFT[one.why]}"
        yield "bad", f"  {one.name} ({one.source.file}:{one.source.line}): {called}"
        if one.sentence:
            yield "", f"    last: {one.sentence}"
        yield "fix", f"    fix: {one.fix}"


_LEFT = {
    "limit": "config.recompile_limit is reached",
    "defect": "framelift failed on it",
    "code": "its code was not made by a compiler",
    "first": "a cached function had no answer yet",
}


#: what is counted of the captures of a function: graphs or captures, which of them, and what is said of them
_NOTES: tuple[tuple[str, Callable[[Capture], bool], str], ...] = (
    ("graph", lambda c: c.compiling, "still being compiled in the background"),
    ("capture", lambda c: c.loaded and not c.shared_with, "loaded from disk, nothing was rehearsed"),
    ("graph", lambda c: c.from_cache, "loaded from the disk cache"),
    ("capture", lambda c: c.shares_graph and not c.shared_with, "with a graph compiled before, for an equal one"),
)


def _functions(report: Report) -> Iterator[Line]:
    if report.functions:
        yield "head", "\nfunctions"
    own = [one for one in report.functions if not one.library]
    for one in own[:_MOST]:
        broken = sum(c.status == "broken" for c in one.captures)
        state = f", {many(broken, 'capture')} broken" if broken else ""
        yield (
            "",
            (
                f"  {one.name} ({one.source.file}:{one.source.line}): {many(len(one.captures), 'capture')}, "
                f"{many(sum(c.operations for c in one.captures), 'operation')}, "
                f"{many(one.hits, 'call')} served{state}"
            ),
        )
        shared = collections.Counter(c.shared_with for c in one.captures if c.shared_with)
        for what, applies, words in _NOTES:
            if times := sum(map(applies, one.captures)):
                yield "dim", f"    {many(times, what)} {words}"
        for why, times in collections.Counter(c.not_kept for c in one.captures if c.not_kept).items():
            yield "dim", f"    {many(times, 'capture')} not kept on disk: {why}"
        yield from _rewrites(one.captures)
        for name, times in shared.items():
            yield (
                "dim",
                (
                    f"    {many(times, 'capture')} shared with another callable of the same code, {name}: "
                    f"nothing was compiled"
                ),
            )
    if len(own) > _MOST:
        yield "dim", f"  ... and {len(own) - _MOST} more"
    if others := len(report.functions) - len(own):
        yield "dim", f"  and {many(others, 'function')} of torch's own, which are captured one by one around the breaks"
        yield from _rewrites([c for one in report.functions if one.library for c in one.captures])


def _rewrites(captures: Iterable[Capture]) -> Iterator[Line]:
    for what, times in collections.Counter(text for c in captures for text in c.rewrites).items():
        yield "dim", f"    {what}{f', in {times} graphs' if times > 1 else ''}"
    for what, times in collections.Counter(text for c in captures for text in c.fallbacks).items():
        yield "", f"    {many(times, 'graph')} compiled as captured, the backend failed otherwise: {what}"


def _times(report: Report) -> Iterator[Line]:
    """The program's functions that took longest to rehearse: own time, and with all they call."""
    if report.times:
        yield "head", "\nrehearsing time by function"
    own = [one for one in report.times if not one.library]
    for one in own[:_MOST_TIMES]:
        yield (
            "",
            f"  {one.own * 1e3:8.1f} ms own, {one.total * 1e3:8.1f} ms in all, {many(one.calls, 'call')}: "
            f"{one.name} ({one.source.file}:{one.source.line})",
        )
    if len(own) > _MOST_TIMES:
        yield "dim", f"  ... and {len(own) - _MOST_TIMES} more"
    if seconds := sum(one.own for one in report.times if one.library):
        yield "dim", f"  {seconds * 1e3:8.1f} ms in functions of libraries"


def _specialisations(report: Report) -> Iterator[Line]:
    if report.specialisations:
        yield "head", "\nspecialized on"
    for one in report.specialisations[:_MOST]:
        where = f"   {one.source.file}:{one.source.line}: {one.source.expression}" if one.source is not None else ""
        yield "", f"  {one.origin} = {one.value}{where}"
    if len(report.specialisations) > _MOST:
        yield "dim", f"  ... and {len(report.specialisations) - _MOST} more"


FORMS["text"] = render

"""Messages of interrupts: the sentence, the expression with a caret, the origin, a hint, the page."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

from ...exc import TorchRuntimeError, UncapturedHigherOrderOpError, Unsupported, UserError
from ...graph.analysis.provenance import ChainStep, chain
from ...torch_ports.loaded import dynamo_exc
from ...vocabulary.break_fixes import break_fix
from ...vocabulary.break_kinds import export_case, kind_of
from ...vocabulary.places import brief, caret, expression, places_of, shown_stack, summary, users
from ...vocabulary.reasons import REASONS, Interrupt, explained_by
from .captures import Capture, GraphBreak
from .user_names import Names

if TYPE_CHECKING:
    from ...rehearsal.session import Rehearsal


#: reasons whose error is a class of its own, as with torch.compile
_CLASSES: dict[str, type[Unsupported]] = {
    "torch-operation-failed": TorchRuntimeError,
    "tensor-bool": UserError,
    "tensor-item": UserError,
    "data-dependent-shape": UserError,
}


def break_of(stop: Interrupt, session: Rehearsal) -> GraphBreak:
    """The interrupt as data that outlives the rehearsal."""
    recorder = session.recorder
    links: tuple[Any, ...] = ()
    if stop.given and stop.reason.id != "torch-operation-failed" and recorder.is_stand_in(stop.given[0]):
        links = chain(
            recorder.value_of(stop.given[0]), lambda value: str(session.origin_of(value.stand_in) or "a tensor")
        )
    stop.given = ()
    return GraphBreak(stop.reason.id, stop.sentence, stop.reason.hint, places_of(stop.places), links, stop.detail)


def error_of(
    stop: Interrupt, name: str, found: GraphBreak, asked: str = "fullgraph=True, but ", names: Names | None = None
) -> Unsupported:
    """The exception for a break that is an error: by what was `asked`, or in the body of a control-flow operator."""
    if stop.operator:
        error: Unsupported = UncapturedHigherOrderOpError(
            uncaptured_message(stop.operator, name, found, names), found.reason
        )
    else:
        kind = _CLASSES.get(found.reason, Unsupported)
        if kind is UserError:
            _join_user_errors()
        error = kind(full_graph_message(name, found, asked, names), found.reason)
    error.real_stack = summary(found.places)
    return error


def _join_user_errors() -> None:
    """torch's own code raises its UserError whatever captures a program.  Where a program may know that class, since
    something has loaded it, ours is one of its subclasses: one `except` is enough.
    """
    theirs: Any = getattr(dynamo_exc.get(), "UserError", None)
    if theirs is not None and not issubclass(UserError, theirs):
        UserError.__bases__ = (*UserError.__bases__, theirs)


def full_graph_message(name: str, stop: GraphBreak, asked: str, names: Names | None = None) -> str:
    """Return the message of `framelift.exc.Unsupported`."""
    rows = [f"{asked}there is a graph break in {name}: {stop.sentence}", shown_stack(stop.places)]
    rows += provenance_rows(stop, names)
    rows += [f"  fix: {fix_of(stop)}", f"  kind: {kind_of(stop.reason)}"]
    rows += [f"  reason: {stop.reason}, explained by {explained_by(stop.reason)}"]
    case = export_case(stop.reason)
    rows += [f"  For more information about this error, see: {case}"] if case is not None else []
    return "\n".join(row for row in rows if row)


def uncaptured_message(operator: str, name: str, stop: GraphBreak, names: Names | None = None) -> str:
    """Return the message of `framelift.exc.UncapturedHigherOrderOpError`."""
    rows = [
        (
            f"{operator}: This higher order operator doesn't work unless it is captured completely with "
            f"torch.compile. Got graph break/error in {name}:"
        ),
        f"  {stop.sentence}",
        shown_stack(stop.places),
        *provenance_rows(stop, names),
        f"  fix: {fix_of(stop)}",
    ]
    return "\n".join(row for row in rows if row)


def fix_of(stop: GraphBreak) -> str:
    """Return the fix of a break, as reports show it."""
    place = users(stop.places)
    if place is None:
        return break_fix(stop.reason, "", stop.detail)
    statement = linecache.getline(place.file, place.line).split(maxsplit=1)
    called = stop.places[stop.places.index(place) + 1 :]
    return break_fix(
        stop.reason,
        expression(place),
        stop.detail,
        statement=statement[0] if statement else "",
        below=(brief(called[0].file), called[0].function) if called else ("", ""),
    )


def provenance_rows(stop: GraphBreak, names: Names | None = None) -> list[str]:
    """Where the value came from, one row per operation, the nearest first."""
    said = names.text if names is not None else lambda text, root: text
    rows = ["  the value comes from:"] if stop.provenance else []
    for link in stop.provenance:
        rows.append(
            f"    {link.text if link.place else said(link.text, True)}" + (f" at {link.place}" if link.place else "")
        )
        if link.place is not None:
            rows += [f"      {line}" for line in caret(link.place).splitlines()]
    return rows


# ---- Graph breaks in parts, for captures that are kept on disk: why a capture ends where it does, and whe ----


def break_data(info: Capture) -> list[Any]:
    """Return [sentence, id of the reason, detail, places, provenance] of how a capture ended."""
    stop = info.stop
    if stop is None:
        return [info.reason, info.reason_id, "", None, []]
    links = [[link.text, link.place] for link in stop.provenance]
    return [info.reason, info.reason_id, stop.detail, list(stop.places), links]


def put_break(info: Capture, data: list[Any]) -> None:
    """Note on a loaded capture how it ends."""
    info.reason, info.reason_id, detail, places, links = data
    if places is None:
        return
    chain = tuple([ChainStep(text, place) for text, place in links])
    info.stop = GraphBreak(info.reason_id, info.reason, REASONS[info.reason_id].hint, tuple(places), chain, detail)
    info.where = shown_stack(info.stop.places)

"""Graph breaks as plain data, for captures that are kept on disk: why a capture ends where it does, and where."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from ...graph.analysis.provenance import Link
from ...vocabulary.places import Place, shown_stack
from ...vocabulary.reasons import REASONS
from .captures import Break, Capture


def break_data(info: Capture) -> list[Any]:
    """[sentence, id of the reason, detail, places, provenance] of how a capture ended, in JSON's types."""
    stop = info.stop
    if stop is None:
        return [info.reason, info.reason_id, "", None, []]
    links = [[link.text, None if link.place is None else astuple(link.place)] for link in stop.provenance]
    return [info.reason, info.reason_id, stop.detail, list(map(astuple, stop.places)), links]


def put_break(info: Capture, data: list[Any]) -> None:
    """Note on a loaded capture how it ends."""
    info.reason, info.reason_id, detail, places, links = data
    if places is None:
        return
    found = tuple([Place(*row) for row in places])
    chain = tuple([Link(text, None if row is None else Place(*row)) for text, row in links])
    info.stop = Break(info.reason_id, info.reason, REASONS[info.reason_id].hint, found, chain, detail)
    info.where = shown_stack(found)

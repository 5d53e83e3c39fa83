"""Graph breaks in parts, for captures that are kept on disk: why a capture ends where it does, and where."""

from __future__ import annotations

from typing import Any

from ...graph.analysis.provenance import ChainStep
from ...vocabulary.places import shown_stack
from ...vocabulary.reasons import REASONS
from .captures import Capture, GraphBreak


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

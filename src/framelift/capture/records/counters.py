"""Counts under the names that torch.compile's users know: `counters["frames"]["ok"]`, `counters["graph_break"]`, …"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from ...torch_ports.loaded import dynamo_counters
from .captures import Capture

#: group -> name -> count.  frames: total, ok.  stats: calls_captured, unique_graphs.  graph_break, unimplemented: by
#: sentence.  recompiles: by function.  recompile_reasons: by sentence.
#: dynamo_cache: hits, misses and errors of captures on disk.  dynamo_cache_bypass: why others are not there.
counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
#: each gives another table that counts the same, or None where there is none yet
MIRRORS: list[Callable[[], Any]] = []


def note(info: Capture) -> None:
    """Count one capture."""
    for table in (counters, *[mirror() for mirror in MIRRORS]):
        if table is not None:
            _count(table, info)


def _count(counters: Any, info: Capture) -> None:
    counters["frames"]["total"] += 1
    if info.reason_id != "raises":
        counters["frames"]["ok"] += 1
    if info.graph_module is not None:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum(node.op.startswith("call") for node in info.graph_module.graph.nodes)
    if info.reason_id and info.reason_id != "raises":
        counters["graph_break"][info.reason] += 1
        counters["unimplemented"][info.reason] += 1
    if info.recompile:
        counters["recompiles"][info.name] += 1
        counters["recompile_reasons"][info.recompile] += 1


def cache_hits() -> int:
    """How often AOTAutograd's disk cache had a graph, by its own count."""
    found = getattr(dynamo_counters.get(), "counters", {})
    return int(found["aot_autograd"]["autograd_cache_hit"]) if "aot_autograd" in found else 0

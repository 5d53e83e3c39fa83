"""Loggers by topic: framelift.breaks, framelift.recompiles, framelift.guards, framelift.graph, framelift.entry, framelift.perf."""

from __future__ import annotations

import logging

__all__ = ["topic"]


def topic(name: str) -> logging.Logger:
    """The logger of one topic.

    >>> topic("breaks").name
    'framelift.breaks'
    """
    return logging.getLogger(f"framelift.{name}")

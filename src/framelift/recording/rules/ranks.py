"""Which rule of the recorder answers a call of a torch callable.

A callable has at most one rule of each rank.  That of the highest rank answers; it is made around the one below, and
may hand a call on to it.  So the order in which modules are imported decides nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ..session import Recorder

Handler = Callable[["Recorder", tuple[Any, ...], dict[str, Any]], Any]
#: a rule, around the one below it if there is one; None: there is nothing for it to do
Maker = Callable[[Handler | None], Handler | None]


class Rank(enum.IntEnum):
    """The subject of a rule: of two rules, the one with the higher number is tried first."""

    REFUSED = 1  # what is never captured
    OPERATION = 2  # what one operation does
    INDEXED = 3  # indices that select parts of known tensors, or are masks
    KNOWN = 4  # tensors whose values are known
    TAKEN = 5  # values that are taken out of tensors into the graph; gradients of what masks select


#: id of the callable -> (the callable, to keep it alive; its handler)
RULES: dict[int, tuple[Any, Handler]] = {}
#: id of the callable -> (the callable, its rules)
_ranked: dict[int, tuple[Any, dict[Rank, Maker]]] = {}


def around(rank: Rank, func: Any, make: Maker) -> None:
    """Register a rule of a callable, which is made around the rule below it."""
    _, makers = _ranked.setdefault(id(func), (func, {}))
    if rank in makers:
        raise TypeError(f"{func!r} has a rule of rank {rank.name} already")
    makers[rank] = make
    handler: Handler | None = None
    for one in sorted(makers):
        handler = makers[one](handler) or handler
    if handler is not None:
        RULES[id(func)] = (func, handler)


def rule(*callables: Any, rank: Rank = Rank.OPERATION) -> Callable[[Handler], Handler]:
    """Register a handler for exactly these callables."""

    def register(handler: Handler) -> Handler:
        for func in {id(one): one for one in callables}.values():  # classes share methods
            around(rank, func, lambda _below: handler)
        return handler

    return register

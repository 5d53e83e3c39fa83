"""Entries of captures with symbolic numbers: the lines before the graph, and what to say when they answer "not mine"."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..exc import ConstraintViolation
from ..graph.relations import NAMESPACE, Preamble, broken_promises, preamble
from ..graph.symbols import Symbols
from ..guard.misses import Miss

__all__ = ["Relations", "check_promises", "names_for", "preamble_of"]


class Relations:
    """The relations between an entry's numbers.  `missed` is called with the numbers of a call that does not satisfy them."""

    def __init__(self, before: Preamble) -> None:
        self.names = before.names
        self.checks = before.checks
        self.space = {**NAMESPACE, **before.constants}
        self.last: tuple[Any, ...] | None = None

    def missed(self, *values: Any) -> Any:
        self.last = values
        return _core.MISS

    def why(self) -> Miss | None:
        """The relation that the last call did not satisfy."""
        if self.last is None:
            return None
        given = dict(zip(self.names, self.last))
        self.last = None
        for text, line in self.checks:
            try:
                holds = eval(text, dict(self.space), given)
            except Exception:
                holds = False
            if not holds:
                told = ", ".join(f"{name} is {value}" for name, value in given.items() if name in text)
                read = f" (relied on at {line})" if line else ""
                return Miss("", "RELATION", text, told, f"{text} no longer holds: {told}{read}", None)
        return Miss("", "RELATION", "", "", "a size or number is not as the capture relied on", None)


def preamble_of(symbols: Symbols, arguments: list[Any] | None) -> Preamble:
    """The lines that run before the graph."""
    return preamble(symbols, arguments, symbols.used)


def names_for(before: Preamble, relations: Relations) -> dict[str, Any]:
    """What those lines may name."""
    return {**NAMESPACE, **before.constants, "MISS": _core.MISS, "missed": relations.missed, "PLAIN": _core.PLAIN}


def check_promises(symbols: Symbols) -> None:
    """Sizes that were marked dynamic must not have become constants."""
    broken = broken_promises(symbols)
    if broken:
        raise ConstraintViolation("; ".join(broken))

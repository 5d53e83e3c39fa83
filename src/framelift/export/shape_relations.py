"""Relations of sizes and numbers that a rehearsal assumed, repeated for other arguments of the same call.

Repeated for fakes with symbols, each relation becomes a guard of their shape environment: so torch.export's solver sees
what the program's own Python compared.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from ..graph.symbols.environment import IN_GRAPHS, Symbols
from ..graph.symbols.meanings import FromNumber, FromSize
from ..graph.symbols.relations import NAMESPACE, assumptions
from ..guards.sentences import where
from .inputs import Call

#: what the texts name, without Python's own choices between numbers: of symbols, these would be relations
_NAMESPACE = {
    **NAMESPACE,
    "min": lambda *numbers: functools.reduce(torch.sym_min, numbers),
    "max": lambda *numbers: functools.reduce(torch.sym_max, numbers),
}


@dataclass(frozen=True, slots=True, eq=False)
class _Size:
    leaf: int
    dim: int
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class Relied:
    """`names`: sizes of leaves, leaves (by number), or text over other names; `checks`: texts with user lines."""

    names: dict[str, Any]
    checks: tuple[tuple[str, Any], ...] = ()
    constants: dict[str, Any] | None = None

    def values(self, leaves: list[Any]) -> dict[str, Any]:
        """The names for these leaves."""
        known: dict[str, Any] = {}
        for name, meaning in self.names.items():
            if type(meaning) is _Size:
                known[name] = getattr(leaves[meaning.leaf], meaning.what)(meaning.dim)
            else:
                known[name] = leaves[meaning] if type(meaning) is int else eval(meaning, self._space(), known)
        return known

    def holds(self, leaves: list[Any]) -> bool:
        """Return whether all of it holds; of symbols, that is guarded from now on."""
        known = self.values(leaves)
        return all([bool(eval(text, self._space(), known)) for text, _ in self.checks])

    def words(self, sources: list[str]) -> list[str]:
        """The relations in terms of the leaves, which are called as `sources` says."""
        words = {
            name: f"{sources[m.leaf]}.{m.what}()[{m.dim}]"
            if type(m) is _Size
            else sources[m]
            if type(m) is int
            else f"({m})"
            for name, m in self.names.items()
        }
        found = []
        for text, _ in self.checks:
            for name in sorted(words, key=len, reverse=True):
                text = text.replace(name, words[name])
            found.append(text)
        return found

    def lines(self, sources: list[str]) -> list[str]:
        """The relations with the user's lines that asked for them."""
        return [
            f"{words} at {where(line)}"
            for words, (_, line) in zip(self.words(sources), self.checks)
            if line is not None
        ]

    def _space(self) -> dict[str, Any]:
        return {**_NAMESPACE, **{name: IN_GRAPHS.get(value, value) for name, value in (self.constants or {}).items()}}


def relied_on(symbols: Symbols, call: Call) -> Relied:
    """The relations of a rehearsal of the call."""
    found = assumptions(symbols)
    where = {id(leaf): i for i, leaf in reversed(list(enumerate(call.leaves))) if isinstance(leaf, torch.Tensor)}
    names: dict[str, Any] = {}
    for name, meaning in found.meanings.items():
        if type(meaning) is FromSize:
            names[name] = _Size(where[id(meaning.tensor)], meaning.dim, meaning.what)
        else:
            names[name] = call.places.index(meaning.place) if type(meaning) is FromNumber else meaning
    return Relied(names, found.checks, found.constants)

"""Sizes and numbers that the environment says are dynamic or static, by where they come from or by their first value:
`torch.compiler.config.dynamic_sources`, `unbacked_sources`, `static_sources` and `dynamic_values`, and their variables.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..graph.fx.named_places import source_text
from ..vocabulary.origins import Origin

Rule = tuple[str, int | None]  # a name or pattern, and the dimension, if it is about one


@dataclass(frozen=True, slots=True)
class Named:
    """Names of sources: dynamic ones, unbacked ones, those whose first values decide, and always static ones."""

    dynamic: tuple[Rule, ...]
    unbacked: tuple[Rule, ...]
    values: frozenset[int]
    static: tuple[Rule, ...]

    def dims(self, tensor: torch.Tensor, origin: Origin) -> tuple[frozenset[int], frozenset[int]]:
        """(dynamic, unbacked) dimensions of the tensor found at `origin`."""
        name, rank = source_text(origin), _core.of_tensor(tensor, "dim")
        static = _meant(self.static, name, rank)
        unbacked = _meant(self.unbacked, name, rank) - static
        valued = {dim for dim in range(rank) if _core.tensor_size(tensor, dim) in self.values} if self.values else set()
        return (_meant(self.dynamic, name, rank) | valued) - unbacked - static, unbacked

    def kept(self, origin: Origin, rank: int) -> frozenset[int]:
        """The static dimensions of what is found at `origin`; a number is like a tensor of one dimension."""
        return _meant(self.static, source_text(origin), rank) if self.static else frozenset()

    def number(self, value: Any, origin: Origin) -> bool:
        """Return whether the int found at `origin` is dynamic."""
        if type(value) is not int:
            return False
        return value in self.values or bool(_meant((*self.dynamic, *self.unbacked), source_text(origin), 1))


def _meant(rules: tuple[Rule, ...], name: str, rank: int) -> frozenset[int]:
    found: set[int] = set()
    for pattern, dim in rules:
        if pattern == name or re.match(pattern, name):
            found.update(range(rank) if dim is None else [dim] if dim < rank else [])
    return frozenset(found)


@functools.cache
def _parsed(dynamic: str, unbacked: str, values: str, static: str) -> Named | None:
    if not (dynamic or unbacked or values or static):
        return None
    first = frozenset(int(one) for one in values.split(",") if one.strip())
    return Named(_rules(dynamic), _rules(unbacked), first, _rules(static))


def _rules(text: str) -> tuple[Rule, ...]:
    """`"L['x']:0,L['y']"`: names or patterns, some with a dimension.

    >>> _rules("L['x']:0, L['y']")
    (("L['x']", 0), ("L['y']", None))
    """
    found: list[Rule] = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, colon, dim = part.rpartition(":")
        found.append((name, int(dim)) if colon and dim.isdigit() else (part, None))
    return tuple(found)


def named_now() -> Named | None:
    """Return the names in torch's configuration now; None: there are none."""
    options: Any = torch.compiler.config
    values, static = (getattr(options, name, "") for name in ("dynamic_values", "static_sources"))  # torch 2.13, 2.15
    return _parsed(options.dynamic_sources, options.unbacked_sources, values, static)

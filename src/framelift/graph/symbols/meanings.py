"""Meanings of the names of symbolic numbers, as records; the relations between names, and the user's marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch


class Created(NamedTuple):
    """A symbol of torch's shape environment: `how` it was made (size, stride, number), with what name of its source."""

    name: str
    how: str
    source: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FromSize:
    """The size of an input's dimension, or its stride: `what`."""

    tensor: torch.Tensor
    dim: int
    what: str = "size"


@dataclass(frozen=True, slots=True, eq=False)
class FromNumber:
    """A number outside; `place` is its origin."""

    place: Any


def itself(value: Any) -> Any:
    """Another name for the same number."""
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Calculation:
    """`func(*args)` over numbers."""

    func: Callable[..., Any]
    args: tuple[Any, ...]

    @property
    def is_alias(self) -> bool:
        """True if this is another name for its argument."""
        return self.func is itself


@dataclass(frozen=True, slots=True, eq=False)
class Outside(Calculation):
    """A calculation that is no part of the graph: its result is an input there."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """`func(generator, *args)` at every call: a number drawn from the generator found at `place`."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    place: Any


@dataclass(frozen=True, slots=True, eq=False)
class FromGraph:
    """A result of the graph; `value` is its record on the tape.  With `dim`: the size of that dimension of it."""

    value: Any
    dim: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """`func(*args) is result` was relied on.  `line` is the user's line that asked."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    result: Any
    line: Any


@dataclass(frozen=True, slots=True)
class Marks:
    """The user's marks of a tensor's dimensions: dynamic ones with their bounds, and unbacked ones."""

    dynamic: dict[int, tuple[int | None, int | None]]
    unbacked: frozenset[int] = frozenset()
    strides: frozenset[int] = frozenset()  # whose stride was seen to change
    special: Mapping[int, tuple[Callable[[Any], Any], ...]] = field(default_factory=dict)  # conditions with captures
    bounds: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)  # of unbacked dimensions
    shared: Mapping[int, str] = field(default_factory=dict)  # unbacked dimensions of one name have one size
    hints: Mapping[int, int] = field(default_factory=dict)  # sizes that compilers are to tune for
    derived: Mapping[int, Any] = field(default_factory=dict)  # sizes that are calculated from shared ones (sympy)
    assumed: tuple[Any, ...] = ()  # relations between shared sizes that hold at every call (sympy)


NO_MARKS: Marks = Marks({})

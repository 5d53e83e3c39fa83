"""Meanings of the names of symbolic numbers, as records; the relations between names, and the user's marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ...guards.equality import indistinguishable


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


# ---- Relations that a capture relies on and that are checked by calling them: entries name them `call_... ----


_FLOAT = torch.finfo(torch.float32)
#: the text of `is_ordinary`
ORDINARY = f"{_FLOAT.tiny!r} <= abs({{0}}) <= {_FLOAT.max!r} or {{0}} == 0.0"


def is_ordinary(value: float) -> bool:
    """Return whether a float is one of many to torch: finite, and a number of float32.  All others are captured one by
    one.
    """
    return value == 0.0 or _FLOAT.tiny <= abs(value) <= _FLOAT.max


def same_float(value: float, constant: float) -> bool:
    """Return whether a float is this one, zeros with their sign."""
    return indistinguishable(value, constant)


def opposite(func: Callable[..., Any]) -> Callable[..., bool]:
    """Return whether a comparison does not hold."""

    def negated(*args: Any) -> bool:
        return not func(*args)

    negated.__name__ = f"not_{func.__name__}"
    return negated


def raising(func: Callable[..., Any], error: Exception) -> Callable[..., bool]:
    """Return whether a calculation raises the same."""
    kind, text = type(error), str(error)

    def raises(*args: Any) -> bool:
        try:
            func(*args)
        except Exception as now:  # noqa: BLE001  whatever it is, it is compared
            return type(now) is kind and str(now) == text
        return False

    raises.__name__ = f"{func.__name__}_raises"
    return raises

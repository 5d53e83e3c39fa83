"""The kinds of guards: each a predicate on the value at an origin, as data.

`KINDS` is the one list: name -> plain Python meaning.  The native program (csrc/guard_checks.cpp) implements the same
names; tests run both and compare.  What a failing guard says in words is in explain.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..origin import Origin

__all__ = ["KINDS", "Guard", "TensorFacts", "dunders", "same_leaf", "tensor_facts"]


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """One predicate: the value at `origin` satisfies `kind` with `value`.

    `line` is the user line ("file.py:12 in forward") whose read made it, for explanations.
    """

    origin: Origin
    kind: str
    value: Any
    line: str = ""

    def __str__(self) -> str:
        return f"{self.origin} {self.kind} {self.value!r}"


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a tensor guard compares.  `python_type` is compared by identity, all else by equality."""

    python_type: type
    dtype: Any
    device: Any
    layout: Any
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    requires_grad: bool
    is_leaf: bool
    keys: int          # raw dispatch key set, as torch._C._dispatch_keys(t).raw_repr()
    is_conj: bool
    is_neg: bool
    is_inference: bool
    has_grad: bool | None  # None: not asked


def same_leaf(a: Any, b: Any) -> bool:
    """Equality of immutable leaves as guards mean it: same type, same value, NaN equals itself, 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (a != a and b != b) or (a == b and math.copysign(1.0, a) == math.copysign(1.0, b))
    if type(a) is complex:
        return same_leaf(a.real, b.real) and same_leaf(a.imag, b.imag)
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same_leaf, a, b))
    if type(a) is slice:
        return same_leaf((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if type(a) in (set, frozenset):
        return a == b and {(type(x), x) for x in a} == {(type(x), x) for x in b}
    return a is b or bool(a == b)

"""From guards to the native program: shared path prefixes become one tree, cheap checks that often fail come first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core, config
from ..origin import Origin
from .explain import NodeInfo, ProgramInfo, hold
from .kinds import Guard, TensorFacts, same_leaf
from .reference import verifier

__all__ = ["build_program"]

#: kind -> (rank within a node: cheap and telling first, what is remembered of the value for explanations)
_PLAN: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "TYPE": (0, hold),
    "IS": (1, hold),
    "EQ": (2, lambda value: value),
    "TENSOR": (3, lambda facts: _remembered_facts(facts)),
    "LEN": (4, lambda value: value),
    "CODE": (5, hold),
    "EMPTY": (6, lambda value: value),
    "KEYS": (7, lambda keys: tuple(map(hold, keys))),
    "ABSENT": (8, lambda key: key),
    "NO_LOOKUP": (9, lambda name: name),
    "DUNDERS": (10, lambda value: (len(value[0]), tuple(name for name, _ in value[1]))),
    "SAME": (11, str),
    "CHECK": (12, lambda value: value[1]),
}


def _remembered_facts(facts: TensorFacts) -> TensorFacts:
    """The facts with the class by name, so that the class is not kept alive."""
    return dataclasses.replace(facts, python_type=facts.python_type.__qualname__)  # type: ignore[arg-type]


class _Draft:
    """A node while the tree grows."""

    __slots__ = ("children", "guards", "index", "origin")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.guards: list[Guard] = []
        self.children: list[_Draft] = []
        self.index = -1


class _Tree:
    """All paths of a program, prefixes shared."""

    def __init__(self) -> None:
        self.drafts: dict[Origin, _Draft] = {}
        self.roots: list[_Draft] = []

    def add(self, origin: Origin) -> _Draft:
        draft = self.drafts.get(origin)
        if draft is None:
            draft = self.drafts[origin] = _Draft(origin)
            (self.roots if origin.base is None else self.add(origin.base).children).append(draft)
        return draft

    def add_guard(self, guard: Guard) -> None:
        draft = self.add(guard.origin)
        if guard.kind == "SAME":
            self.add(guard.value)
        draft.guards.append(guard)

    def numbered(self) -> list[_Draft]:
        """The nodes in the order of evaluation: parents first; among siblings, leaves and arguments' own checks first."""
        order: list[_Draft] = []
        pending = sorted(self.roots, key=_urgency, reverse=True)
        while pending:
            draft = pending.pop()
            draft.index = len(order)
            order.append(draft)
            if draft.children:
                pending.extend(sorted(draft.children, key=_urgency, reverse=True))
        return order


def _urgency(draft: _Draft) -> tuple[bool, bool, int]:
    """Arguments before constants, short paths before long ones, then by the first check."""
    rank = min((_PLAN[g.kind][0] for g in draft.guards), default=50)
    return draft.origin.step == "const", bool(draft.children), rank


def _same_constant(a: Guard, b: Guard) -> bool:
    return a.kind == b.kind and (a.value is b.value or (a.kind in ("EQ", "LEN", "ABSENT", "NO_LOOKUP") and same_leaf(a.value, b.value)))


def _settled(guards: list[Guard]) -> list[Guard]:
    """A node's guards in order, without those that others imply."""
    if len(guards) == 1:
        return guards
    classes = [g.value.python_type for g in guards if g.kind == "TENSOR"]
    kept: list[Guard] = []
    for guard in guards:
        implied = guard.kind == "TYPE" and any(guard.value is cls for cls in classes)
        if not implied and not any(_same_constant(guard, other) for other in kept):
            kept.append(guard)
    return sorted(kept, key=lambda g: _PLAN[g.kind][0])


def build_program(guards: Sequence[Guard], inputs: Sequence[Origin], externals: Sequence[Origin], distinct: Sequence[Origin],
                  state: Any) -> tuple[_core.GuardProgram, ProgramInfo]:
    """The native program of these guards, and what explanations need.

    The entry is handed the values at `inputs` and at `externals`.  The values at `distinct` must be different objects;
    `state` is a `_core.torch_state()` or None.  Neither result keeps what the guards name alive, except leaves and objects
    that do not support weak references.
    """
    tree = _Tree()
    for guard in guards:
        tree.add_guard(guard)
    asked = [[tree.add(origin) for origin in origins] for origins in (inputs, externals, dict.fromkeys(distinct))]
    nodes: list[tuple[int, str, Any, tuple[tuple[str, Any], ...]]] = []
    infos: list[NodeInfo] = []
    for draft in tree.numbered():
        origin = draft.origin
        parent = -1 if origin.base is None else tree.drafts[origin.base].index
        kept = _settled(draft.guards) if draft.guards else []
        checks = tuple((g.kind, g.value if g.kind != "SAME" else tree.drafts[g.value].index) for g in kept)
        nodes.append((parent, origin.step, origin.key, checks))
        remembered = tuple((g.kind, _PLAN[g.kind][1](g.value), g.line) for g in kept)
        infos.append(NodeInfo(parent, origin.step, hold(origin.key) if origin.step == "const" else origin.key, remembered))
    numbers = [[draft.index for draft in drafts] for drafts in asked]
    program = _core.GuardProgram(nodes, *numbers, state)
    info = program.info = ProgramInfo(tuple(infos), tuple(numbers[2]), state)
    if config.verify_guards:
        program.verifier = verifier(list(guards), list(distinct), state)
    return program, info

"""From guards to the native program: shared path prefixes become one tree, checks that often fail come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core, config
from ..vocabulary.origins import Origin
from .kinds import Guard
from .reference import verifier

__all__ = ["build_program"]

#: the order of checks within a node: those that are cheap and often fail first
RANK = {
    kind: rank
    for rank, kind in enumerate(
        (
            "TYPE",
            "IS",
            "EQ",
            "TENSOR",
            "LEN",
            "CODE",
            "EMPTY",
            "KEYS",
            "HAS_KEY",
            "ABSENT",
            "NO_LOOKUP",
            "DUNDERS",
            "SAME",
            "CHECK",
            "JOINT",
            "UNMARKED",
        )
    )
}


class _Draft:
    """A node while the tree grows."""

    __slots__ = ("children", "guards", "index", "origin", "parent")

    def __init__(self, origin: Origin, parent: _Draft | None) -> None:
        self.origin = origin
        self.parent = parent
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
            if origin.base is None:
                draft = _Draft(origin, None)
                self.roots.append(draft)
            else:
                parent = self.add(origin.base)
                draft = _Draft(origin, parent)
                parent.children.append(draft)
            self.drafts[origin] = draft
        return draft

    def numbered(self) -> list[_Draft]:
        """The nodes in the order of evaluation: arguments' own checks, what hangs on arguments, then constants."""
        order: list[_Draft] = []
        pending = sorted(self.roots, key=_urgency, reverse=True)
        while pending:
            draft = pending.pop()
            draft.index = len(order)
            order.append(draft)
            if draft.children:
                pending.extend(reversed(draft.children))
        return order


def _urgency(root: _Draft) -> tuple[bool, bool, int]:
    return root.origin.step == "const", bool(root.children), min((RANK[g.kind] for g in root.guards), default=99)


def _settled(guards: list[Guard]) -> list[Guard]:
    """A node's guards in order; a tensor's facts name its class already."""
    if any([g.kind == "TENSOR" for g in guards]):
        classes = [g.value.python_type for g in guards if g.kind == "TENSOR"]
        guards = [g for g in guards if g.kind != "TYPE" or g.value not in classes]
    return sorted(guards, key=_rank)


def _rank(guard: Guard) -> int:
    return RANK[guard.kind]


#: kinds that compare with what is at other origins
_ELSEWHERE = frozenset({"SAME", "JOINT"})


def _constant(tree: _Tree, guard: Guard) -> Any:
    """What such a guard compares with: the nodes of the other origins."""
    if guard.kind == "SAME":
        return tree.drafts[guard.value].index
    check, words, others = guard.value
    return check, words, tuple([tree.drafts[other].index for other in others])


def build_program(
    guards: Sequence[Guard],
    inputs: Sequence[Origin],
    externals: Sequence[Origin],
    distinct: Sequence[Origin],
    state: Any,
) -> tuple[_core.GuardProgram, _core.GuardProgram]:
    """The native program of these guards, and what `explain` takes (the program itself).

    The entry is handed the values at `inputs` and at `externals`.  The values at `distinct` must be different objects;
    `state` is a `_core.torch_state()` or None.  The program does not keep alive what the guards name, except leaves and
    objects that do not support weak references.  Its `info` holds the users' lines, one tuple per node.
    """
    tree = _Tree()
    add = tree.add
    for guard in guards:
        add(guard.origin).guards.append(guard)
        if guard.kind == "SAME":
            add(guard.value)
        elif guard.kind == "JOINT":
            for other in guard.value[2]:
                add(other)
    asked = [[add(origin) for origin in origins] for origins in (inputs, externals, distinct)]
    nodes: list[tuple[int, str, Any, tuple[tuple[str, Any], ...]]] = []
    lines: list[tuple[Any, ...]] = []
    for draft in tree.numbered():
        kept = draft.guards if len(draft.guards) < 2 else _settled(draft.guards)
        origin = draft.origin
        nodes.append(
            (
                -1 if draft.parent is None else draft.parent.index,
                origin.step,
                origin.key,
                tuple([(g.kind, g.value if g.kind not in _ELSEWHERE else _constant(tree, g)) for g in kept]),
            )
        )
        lines.append(tuple([g.line for g in kept]))
        draft.parent = None  # or the drafts would wait for the collector, and the guards' objects with them
    given, kept_out, apart = ([draft.index for draft in drafts] for drafts in asked)
    program = _core.GuardProgram(nodes, given, kept_out, apart, state)
    program.info = lines
    if config.verify_guards:
        program.verifier = verifier(list(guards), list(distinct), state)
    return program, program

"""From guards to the native program: shared path prefixes become one tree, checks that often fail come first
(csrc/guard_tree.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core, config
from ..vocabulary.origins import Origin
from .kinds import Guard
from .reference import verifier

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
    nodes, lines, given, kept_out, apart = _core.guard_tree(guards, inputs, externals, distinct, RANK)
    program = _core.GuardProgram(nodes, given, kept_out, apart, state)
    program.info = lines
    if config.verify_guards:
        program.verifier = verifier(list(guards), list(distinct), state)
    return program, program

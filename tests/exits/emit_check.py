"""The checker of entry plans: tests call it on every plan, and it needs no graph to run."""

from __future__ import annotations

import ast
import re

from framelift._core import is_a
from framelift.exc import InternalError
from framelift.exits.entry import EntryPlan

__all__ = ["check_plan"]


def check_plan(plan: EntryPlan) -> None:
    """Raise `InternalError` unless the plan's source is one function whose every name means something."""
    (function,) = ast.parse(plan.source).body
    if not is_a(function, ast.FunctionDef) or [a.arg for a in function.args.args] != ["inputs", "externals"]:
        raise InternalError(f"not an entry:\n{plan.source}")
    names = [node for node in ast.walk(function) if is_a(node, ast.Name)]
    stored = {node.id for node in names if is_a(node.ctx, ast.Store)}
    known = stored | plan.constants.keys() | {"inputs", "externals", "graph"}
    unknown = {node.id for node in names} - known
    if unknown or stored & plan.constants.keys():
        raise InternalError(
            f"names without meaning: {sorted(unknown)}, hidden: {sorted(stored & plan.constants.keys())}"
        )
    for letter, expected in (("t", plan.outputs), ("e", plan.externals)):
        unpacked = {name for name in stored if re.fullmatch(letter + r"\d+", name)}
        if unpacked and len(unpacked) != len(expected):
            raise InternalError(f"{len(unpacked)} of {len(expected)} {letter} are unpacked:\n{plan.source}")

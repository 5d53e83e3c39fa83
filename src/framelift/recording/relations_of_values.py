"""Relations of numbers that were taken out of tensors: `if n.item() > 5:` where there must be one graph.

The number itself stays one that the graph computes.  Where all that it is made of are few integers outside, the
relation is answered with what these hold now, and the answer is guarded: one capture for each answer, not for each
value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

from .._core import is_a
from ..graph.fx.targets import Target
from ..graph.symbols.meanings import FromGraph
from .known_values import Place, SameResult, guard_result

if TYPE_CHECKING:
    from ..graph.fx.values import Value
    from ..rehearsal.session import Session

__all__ = ["answer"]

#: what such a relation may be made of: Python's own operators, over ints
_PLAIN = (
    sympy.Symbol,
    sympy.Integer,
    sympy.Add,
    sympy.Mul,
    sympy.core.relational.Relational,
    sympy.logic.boolalg.BooleanFunction,
    FloorDiv,
    Mod,
    PythonMod,
    Max,
    Min,
)
_OPERATORS = {"FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Max": max, "Min": min}


def answer(session: Session, values: dict[int, Value], relation: Any) -> bool | None:
    """Whether a relation holds in this call, and guards that; None where that cannot be known.  `values`: all there
    are.
    """
    recorder = session.recorder
    names = list(relation.free_symbols)
    meaning = recorder.symbols.meanings.get(str(names[0])) if recorder.symbols is not None and len(names) == 1 else None
    if not session.fullgraph or session.exporting or type(meaning) is not FromGraph or meaning.dim is not None:
        return None
    number: Value = meaning.value
    step = number.step
    if step is None or len(step.inputs) != 1 or len(step.args) != 1 or step.kwargs or recorder.tape_is_a_body():
        return None
    if not all(is_a(part, _PLAIN) for part in sympy.preorder_traversal(relation)):
        return None
    found = recorder.known_values.program(step.inputs[0], values.values())
    if found is None:
        return None
    source, program, made = found
    func = step.target.func
    holds = _Holds(func, number.path, sympy.lambdify(names, relation, [_OPERATORS, "math"]), f"{relation}")
    program = [
        *program,
        (Target(holds, "call_function", holds, holds.words), [Place(len(program) - 1, step.inputs[0].path)], {}),
    ]
    expected = holds(made)
    guard_result(session.world, session.function.__code__, source, SameResult(source, program, expected), True)
    return bool(expected)


class _Holds:
    """Whether a relation holds for a number in a tensor."""

    def __init__(self, take: Callable[..., Any], path: tuple[Any, ...], relation: Callable[[int], Any], words: str):
        self.take, self.path, self.relation, self.words = take, path, relation, words

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        number = self.take(tensor)
        for index in self.path:
            number = number[index]
        return torch.tensor(bool(self.relation(number)))

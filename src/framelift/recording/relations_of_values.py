"""Relations of numbers that were taken out of tensors: `if n.item() > 5:` where there must be one graph.

The number itself stays one that the graph computes.  Where all that the relation is made of are few integers outside,
sizes of inputs and numbers outside, it is answered with what these are now, and the answer is guarded: one capture for
each answer, not for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from .. import _core
from .._core import is_a
from ..graph.fx.values import Value
from ..graph.symbols.meanings import FromGraph, FromNumber, FromSize, Relation
from ..graph.symbols.numbers import Float, Int
from ..graph.symbols.relations import function_of
from ..torch_ports.modes import DisableTorchFunction
from ..vocabulary.origins import Origin
from ..vocabulary.outside_exceptions import raise_outside
from .known_values import guard_together
from .session import Session

#: for each of some numbers: the places among the values outside that it follows from, and what takes it out of these
Taken = Sequence[tuple[list[int], Callable[..., Any]]]


def answer(session: Session, values: dict[int, Value], relation: Any, any_few: bool = False) -> bool | None:
    """Return whether a relation holds in this call, guarded; None where that cannot be known.  `values`: all there are.

    `any_few`: one that seldom changes, so it may be made of any few numbers outside.
    """
    recorder = session.recorder
    if (
        not session.policy.fullgraph
        or session.policy.exporting
        or recorder.symbols is None
        or recorder.tape_is_a_body()
    ):
        return None
    names: list[str] = []
    function = as_function(relation, names)
    found = sources_of(session, values, names, any_few)
    if found is None:
        return None
    places, held, numbers = found
    if function is None or not (places or any_few):
        return None
    try:
        expected = bool(_Answer(function, numbers, True).now(held))
    except Exception as error:  # the program meets it, or nobody does
        raise_outside(error)
        return None
    if not places:
        return expected
    said = _words(relation)
    words = f"{said} of {', '.join(map(str, places))}"
    guard_together(session.world, places, _Answer(function, numbers, expected), f"makes {said} {expected}", words)
    return expected


def sources_of(
    session: Session, values: dict[int, Value], names: list[str], any_few: bool = False
) -> tuple[list[Origin], list[Any], Taken] | None:
    """Where the values lie that numbers of these names follow from, what they are now, and how to take the numbers out
    of them; None where that cannot be known.
    """
    assert session.symbols is not None
    places: list[Origin] = []
    held: list[Any] = []
    numbers = []
    for name in names:
        found = _number(session, values, session.symbols.meanings.get(name), any_few)
        if found is None:
            return None
        origins, sources, take = found
        for origin, source in zip(origins, sources):
            if origin not in places:
                places.append(origin)
                held.append(source)
        numbers.append(([places.index(origin) for origin in origins], take))
    return places, held, numbers


def _words(value: Any) -> str:
    if type(value) in (Float, Relation):
        return f"{getattr(value.func, '__name__', 'a function')}({', '.join(map(_words, value.args))})"
    return str(value.node.expr if type(value) is Int else value)


def as_function(value: Any, names: list[str]) -> Callable[..., Any] | None:
    """A relation or number as a function of the symbols in it, whose names are added; None where it has no form."""
    if type(value) is Float and value.func is None:
        names += [value.name] if value.name not in names else []
        place = names.index(value.name)
        return lambda *given: given[place]
    if type(value) in (Float, Relation):
        parts = [as_function(part, names) for part in value.args]
        if None in parts:
            return None
        return lambda *given: value.func(*[part(*given) for part in parts])  # type: ignore[misc]  # none is None
    expression = value.node.expr if type(value) is Int else value
    if not is_a(expression, sympy.Basic):
        return lambda *_: expression
    own = sorted(str(symbol) for symbol in expression.free_symbols)
    names += [name for name in own if name not in names]
    places, function = [names.index(name) for name in own], function_of(expression, own)
    return None if function is None else lambda *given: function(*[given[place] for place in places])


def _number(
    session: Session, values: dict[int, Value], meaning: Any, any_few: bool
) -> tuple[list[Origin], list[Any], Callable[..., Any]] | None:
    """Where what decides a number is, what is there now, and a function that takes the number out of that."""
    world = session.world
    if type(meaning) is FromNumber:
        value = getattr(world.numbers.get(meaning.place), "hint", None)
        return ([meaning.place], [value], _itself) if type(value) is int else None
    if type(meaning) is FromSize:
        record = world.memo.get(id(meaning.tensor))
        return None if record is None else ([record.origin], [meaning.tensor], _TensorSize(meaning.what, meaning.dim))
    if type(meaning) is not FromGraph or meaning.dim is not None:
        return None
    step = meaning.value.step
    if step is None or len(step.inputs) != 1 or len(step.args) != 1 or step.kwargs:
        return None
    found = session.known_values.program(step.inputs[0], values.values(), step, any_few)
    if found is None:
        return None
    sources, check, _ = found
    path = (step.inputs[0].path, meaning.value.path)
    return [world.memo[id(source)].origin for source in sources], sources, _Item(check.made, step.target.func, *path)


def _itself(value: Any) -> Any:
    return value


class _TensorSize:
    """A size or stride of a tensor."""

    def __init__(self, what: str, dim: int) -> None:
        self.read, self.dim = _core.tensor_size if what == "size" else _core.tensor_stride, dim

    def __call__(self, tensor: torch.Tensor) -> int:
        return self.read(tensor, self.dim)


class _Item:
    """A number in what follows from tensors."""

    def __init__(
        self, made: Callable[..., Any], take: Callable[..., Any], part: tuple[Any, ...], path: tuple[Any, ...]
    ):
        self.made, self.take, self.part, self.path = made, take, part, path

    def __call__(self, *tensors: torch.Tensor) -> Any:
        made = self.made(*tensors)
        for index in self.part:
            made = made[index]
        number = self.take(made)
        for index in self.path:
            number = number[index]
        return number


def taken(numbers: Taken, values: Sequence[Any]) -> list[Any]:
    """The numbers, for these values outside."""
    with DisableTorchFunction():
        return [take(*[values[place] for place in places]) for places, take in numbers]


class _Answer:
    """The check of a guard: a relation holds for the numbers taken out of some values, or does not, as it did."""

    def __init__(self, relation: Callable[..., Any], numbers: Taken, expected: bool) -> None:
        self.relation, self.numbers, self.expected = relation, numbers, expected

    def __call__(self, *values: Any) -> bool:
        return bool(self.now(values)) is self.expected  # an error is a failure, as for any guard

    def now(self, values: Sequence[Any]) -> Any:
        """The answer for these values."""
        return self.relation(*taken(self.numbers, values))

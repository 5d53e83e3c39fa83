"""Generators of random numbers around a graph as data, and back: where the real ones are found, and what is done to
them before and after the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph.state import random_draws
from ..graph.state.random_draws import Action, Drawing
from ..vocabulary.written_forms import NotKept
from .plain_values import leaf_data, leaf_of
from .refusals import NotMine

if TYPE_CHECKING:
    from .record_reader import Reader
    from .record_writer import RecordWriter

_CALLS = {
    call.__name__: call
    for call in (
        random_draws.seed,
        random_draws.seed_all,
        random_draws.take_state,
        random_draws.set_state,
        random_draws.take_cuda_state,
        random_draws.set_cuda_state,
    )
}


def drawing_data(writer: RecordWriter, drawing: Drawing) -> list[Any]:
    """[origins of the generators, None for those that captured code made; what comes before the graph, and after]."""
    sources = [None if origin is None else writer.origin(origin) for origin in drawing.origins]
    return [sources, *([_action_data(action) for action in actions] for actions in (drawing.before, drawing.after))]


def _action_data(action: Action) -> list[Any]:
    name = action.call.__name__
    if _CALLS.get(name) is not action.call:
        raise NotKept("something unknown is done to a generator of random numbers", name)
    return [name, action.source, leaf_data(action.value), action.slot]


def drawing_of(reader: Reader, data: list[Any]) -> Drawing:
    """The generators of such data: those that the graph draws from are new."""
    sources, before, after = data
    drawing = Drawing()
    for number in sources:
        drawing.add(None, None if number is None else reader.origin(number))
    drawing.before += [_action_of(row) for row in before]
    drawing.after += [_action_of(row) for row in after]
    return drawing


def _action_of(row: list[Any]) -> Action:
    name, source, value, slot = row
    if name not in _CALLS:
        raise NotMine(f"an unknown call of a generator: {name}")
    return Action(_CALLS[name], source, leaf_of(value), slot)

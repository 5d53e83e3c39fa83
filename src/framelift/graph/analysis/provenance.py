"""Where a tensor comes from: the chain of recorded operations behind it, with the user's lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..._core import is_a
from ...vocabulary.places import Place, places_of, users
from ..fx.values import Value
from ..metadata.facts import Facts


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a chain: what was done, and where.  `place` is None for an input of the graph."""

    text: str
    place: Place | None


def chain(value: Value, name: Callable[[Value], str], limit: int = 6) -> tuple[ChainStep, ...]:
    """The operations behind a value, the last one first, along the first tensor of each, down to an input.

    `name` says what an input is called.
    """
    links: list[ChainStep] = []
    while value.step is not None and len(links) < limit:
        step = value.step
        links.append(ChainStep(f"{step.target.name} gave {_kind(value)}", users(places_of(step.places))))
        if not step.inputs:
            return tuple(links)
        value = step.inputs[0]
    if value.step is None:
        links.append(ChainStep(f"{name(value)}, {_kind(value)}, is an input", None))
    return tuple(links)


def _kind(value: Value) -> str:
    facts = value.facts
    if not is_a(facts, Facts):  # of a tensor that is something else by now
        return "a tensor"
    shape = ", ".join(map(str, facts.size))
    return f"a {str(facts.dtype).removeprefix('torch.')} tensor of shape ({shape})"

"""A capture that resumes after a graph break: where it begins, and which expressions gave the values on the stack.

Such a capture's parameters are the frame's locals, which have names, and its stack, which has none: `.0`, `.1`.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, replace

from ..bytecode.flow import Flow
from ..bytecode.producers import producers
from ..bytecode.resume import stops_after
from ..guards.misses import Miss
from ..vocabulary.places import Place, expression, place_of
from .breaks import Breaks

_PARAMETER = re.compile(r"(?:(?<=\s)|^)\.(?:\d+|handled|receiver)\b")


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a capture begins; a parameter that only framelift named is called by its expression."""

    place: Place
    after: tuple[Place, ...]  # what ran eagerly before
    names: tuple[tuple[str, str], ...]  # parameter -> expression
    arguments: tuple[str, ...]  # all parameters
    loops: tuple[Place, ...]  # the loops that are resumed

    def said(self, text: str) -> str:
        """A path or sentence with such parameters called by their expressions."""
        names = dict(self.names)
        return _PARAMETER.sub(lambda found: names.get(found[0], found[0]), text)

    def missed(self, miss: Miss) -> Miss:
        """The same for why an entry was not used."""
        return replace(miss, origin=self.said(miss.origin), sentence=self.said(miss.sentence))


def resumed_from(breaks: Breaks, code: types.CodeType) -> Resumed | None:
    """For code made to resume after a break; None for the program's own code."""
    if not breaks.is_resumed(code):
        return None
    frames, made = breaks.of(code)
    point = next(point for (point, plain), each in frames.made.items() if each is made)
    flow, original = frames.flow, frames.code
    after = dict.fromkeys(
        place_of(original, 2 * flow.last(p.unit).unit)
        for p, plain in frames.made
        if plain and point.unit in stops_after(flow, p.unit)
    )
    rows, loops = _names(flow, original, point.unit)
    return Resumed(
        place_of(original, 2 * point.unit),
        tuple(after),
        tuple(rows),
        code.co_varnames[: code.co_argcount],
        tuple(loops),
    )


def _names(flow: Flow, code: types.CodeType, unit: int) -> tuple[list[tuple[str, str]], list[Place]]:
    rows = [
        (".handled", "the exception being handled"),
        (".receiver", code.co_varnames[0] if code.co_varnames else "self"),
    ]
    loops = []
    for slot, made_by in producers(flow, unit).items():
        if flow.at[made_by].name == "GET_ITER":
            number = flow.number[made_by]
            loops += [place_of(code, 2 * op.unit) for op in flow.ops[number + 1 : number + 3] if op.name == "FOR_ITER"]
            rows.append((f".{slot}", f"the loop over {_brief(expression(place_of(code, 2 * made_by)))}"))
            continue
        text = _brief(expression(place_of(code, 2 * made_by)))
        if text:
            rows.append((f".{slot}", text))
    return rows, loops


def _brief(text: str, limit: int = 48) -> str:
    return text if len(text) <= limit else text[:limit] + "..."

"""Recipes of symbolic numbers: the text that calculates them at every call, or an output of the graph."""

from __future__ import annotations

from typing import Any

from ..graph.symbols.numbers import Bool, Float, Int
from ..graph.symbols.numpy_numbers import NumpyNumber
from ..graph.symbols.relations import text_of
from .recipe import Walk, leaf


@leaf(Int, Float, Bool, NumpyNumber)
def _number(walk: Walk, number: Any) -> str:
    symbols = number.home
    if type(number) is Int and (known := number.node.maybe_as_int()) is not None:
        return repr(known)
    text = text_of(symbols, number)
    if text is not None:
        symbols.used.append(number)
        return text
    for place, output in enumerate(walk.outputs):
        if output is number:
            return f"t{place}"
    walk.outputs.append(number)
    return f"t{len(walk.outputs) - 1}"

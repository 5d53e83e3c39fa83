"""Where values come from, in the words that TorchDynamo's graphs have for it: `L['x']`, `G['scale']`,
`L['self']._modules['lin']._parameters['weight']`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...vocabulary.origins import Origin
from ..symbols.symbol_sources import SourceName
from .named_places import NamedPlaces


@dataclass(frozen=True, slots=True)
class InputSource:
    """Where an input of a graph comes from: `node._dynamo_source`."""

    name: SourceName

    def __str__(self) -> str:
        return str(self.name)


def source_text(origin: Origin, places: NamedPlaces | None = None) -> SourceName:
    """The place of a value.

    >>> from framelift.vocabulary.origins import arg
    >>> weight = arg(0, "self").to("dict").to("item", "_parameters").to("item", "weight")
    >>> source_text(weight)
    "L['self']._parameters['weight']"
    """
    return SourceName((places or NamedPlaces()).text(origin).text)


def module_path(origin: Origin, places: NamedPlaces) -> str:
    """The place of a module, as `nn_module_stack` shows it: `L['self'].lin`."""
    parts = places.parts(origin)
    return ".".join((parts.root.text, *parts.path))


def state_name(origin: Origin, places: NamedPlaces) -> str:
    """The name of a parameter or buffer in its root module's state; "" for what is none."""
    parts = places.parts(origin)
    return ".".join(parts.path) if parts.is_state else ""

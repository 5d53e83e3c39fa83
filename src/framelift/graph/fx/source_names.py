"""Where values come from, in the words that TorchDynamo's graphs have for it: `L['x']`, `G['scale']`,
`L['self']._modules['lin']._parameters['weight']`.
"""

from __future__ import annotations

import types
from dataclasses import dataclass

from ...vocabulary.origins import Origin, step_text
from ..symbols.symbol_sources import SourceName
from .placeholder_names import closed_over

__all__ = ["Source", "SourceName", "module_path", "source_text", "state_name"]

_TABLES = ("_modules", "_parameters", "_buffers")


@dataclass(frozen=True, slots=True)
class Source:
    """Where an input of a graph comes from: `node._dynamo_source`."""

    name: SourceName

    def __str__(self) -> str:
        return str(self.name)


def _steps(origin: Origin, root: types.CodeType | None) -> tuple[str, list[Origin]]:
    """The root in these words, and the steps from there."""
    steps: list[Origin] = []
    while origin.base is not None:
        variable = closed_over(origin, root) if origin.step == "cell" else None
        if variable is not None:
            return f"L[{variable!r}]", [step for step in reversed(steps) if step.step != "contents"]
        steps.append(origin)
        origin = origin.base
    steps.reverse()
    if origin.step == "arg":
        return f"L[{origin.key[1]!r}]", steps
    if type(origin.key) is dict and steps and steps[0].step == "item":
        return f"G[{steps[0].key!r}]", steps[1:]
    return f"G[{origin!s}]", steps


def source_text(origin: Origin, root: types.CodeType | None = None) -> SourceName:
    """The place of a value.

    >>> from framelift.vocabulary.origins import arg
    >>> weight = arg(0, "self").to("dict").to("item", "_parameters").to("item", "weight")
    >>> source_text(weight)
    "L['self']._parameters['weight']"
    """
    text, steps = _steps(origin, root)
    for before, step in zip((None, *steps), steps):
        if step.step == "dict":
            continue
        attribute = step.step == "item" and before is not None and before.step == "dict"
        text = f"{text}.{step.key}" if attribute else step_text(step.step, text, step.key)
    return SourceName(text)


def _names(steps: list[Origin]) -> list[str]:
    """The steps as attributes of modules."""
    keys = [step for step in steps if step.step != "dict"]
    return [
        str(step.key)
        for step in keys
        if not (step.key in _TABLES and step.base is not None and step.base.step == "dict")
    ]


def module_path(origin: Origin, root: types.CodeType | None = None) -> str:
    """The place of a module, as `nn_module_stack` shows it: `L['self'].lin`."""
    text, steps = _steps(origin, root)
    return ".".join([text, *_names(steps)])


def state_name(origin: Origin, root: types.CodeType | None = None) -> str:
    """The name of a parameter or buffer in its root module's state; "" for what is none."""
    _, steps = _steps(origin, root)
    keys = [step.key for step in steps if step.step == "item"]
    return ".".join(_names(steps)) if "_parameters" in keys or "_buffers" in keys else ""

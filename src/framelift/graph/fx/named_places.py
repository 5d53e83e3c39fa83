"""Names of the places of values in graphs: each described once, for all places with the same beginning."""

from __future__ import annotations

import functools
import re
import types
from dataclasses import dataclass
from typing import NamedTuple

from ..._core import is_a
from ...bytecode.resume import parameter_count
from ...vocabulary.origins import Origin, step_text
from ..symbols.symbol_sources import SourceName

_TABLES = ("_modules", "_parameters", "_buffers")
_NO_LETTERS = re.compile("[^0-9A-Za-z]+")


@functools.cache
def _letters(text: str) -> str:
    """Return the characters of a text that an identifier may have."""
    return _NO_LETTERS.sub("_", text).strip("_")


class _Root(NamedTuple):
    """Where a path begins, in the words of TorchDynamo's graphs."""

    text: str  # L['self'], G['scale']
    letters: str  # L_self, G_scale
    closure: bool = False  # a variable of a closure, whose cell is not shown
    globals: bool = False  # a dictionary of globals, which is not shown either


class Text(NamedTuple):
    """One place as a source."""

    text: str  # L['self']._modules['fc']._parameters['weight']
    before: str  # the last step that is shown; "" for none
    root: _Root


class Parts(NamedTuple):
    """One place by the keys that lead there.  Their own texts are asked for."""

    letters: str  # L_self_modules_fc_parameters_weight: what an identifier is made of
    path: tuple[str, ...]  # ("fc", "weight"): the steps from the root as attributes of modules
    is_state: bool  # among the parameters or buffers of a module
    root: _Root


class NamedPlaces:
    """The places of one capture.  `code` is the captured code, whose function may be an argument behind its
    parameters.
    """

    def __init__(self, code: types.CodeType | None = None) -> None:
        self._code = code
        self._texts: dict[Origin, Text] = {}
        self._parts: dict[Origin, Parts] = {}

    def text(self, origin: Origin) -> Text:
        """A place as a source."""
        found = self._texts.get(origin)
        if found is None:
            found = self._texts[origin] = self._new_text(origin)
        return found

    def parts(self, origin: Origin) -> Parts:
        """A place by the keys that lead there."""
        found = self._parts.get(origin)
        if found is None:
            found = self._parts[origin] = self._new_parts(origin)
        return found

    def _root(self, origin: Origin) -> _Root | None:
        """Return the root that begins at this step; None for a step from another place."""
        key = origin.key
        if origin.base is None:
            if origin.step == "arg":
                return _Root(f"L[{key[1]!r}]", f"L_{key[1]}")
            return _Root(f"G[{origin!s}]", "G", globals=type(key) is dict)
        variable = _closed_over(origin, self._code) if origin.step == "cell" else None
        return None if variable is None else _Root(f"L[{variable!r}]", f"L_{variable}", closure=True)

    def _new_text(self, origin: Origin) -> Text:
        root = self._root(origin)
        if root is not None:
            return Text(root.text, "", root)
        assert origin.base is not None
        base, step, key = self.text(origin.base), origin.step, origin.key
        if base.root.closure and step == "contents":
            return base
        if base.root.globals and origin.base.base is None and step == "item":
            return Text(f"G[{key!r}]", "", base.root)
        if step == "dict":
            return Text(base.text, step, base.root)
        is_attribute = step == "item" and base.before == "dict"
        return Text(f"{base.text}.{key}" if is_attribute else step_text(step, base.text, key), step, base.root)

    def _new_parts(self, origin: Origin) -> Parts:
        root = self._root(origin)
        if root is not None:
            return Parts(_letters(root.letters), (), False, root)
        assert origin.base is not None
        base, step, key = self.parts(origin.base), origin.step, origin.key
        if base.root.closure and step == "contents":
            return base
        added = "" if key is None else _letters(key if type(key) is str else str(key))
        letters = f"{base.letters}_{added}" if added else base.letters
        if base.root.globals and origin.base.base is None and step == "item":
            return Parts(letters, (), False, _Root(f"G[{key!r}]", letters))
        is_name = type(key) is str
        is_table = step == "dict" or is_name and key in _TABLES and origin.base.step == "dict"
        is_state = base.is_state or step == "item" and is_name and key in _TABLES[1:]
        return Parts(letters, base.path if is_table else (*base.path, str(key)), is_state, base.root)


def _closed_over(origin: Origin, root: types.CodeType | None) -> str | None:
    """The name of the variable of a closure that this is the cell of."""
    if origin.step != "cell" or origin.base is None:
        return None
    if is_a(origin.base.key, types.FunctionType):
        return origin.base.key.__code__.co_freevars[origin.key]
    if root is None or origin.base.step != "arg" or origin.base.key[0] < parameter_count(root):
        return None
    return root.co_freevars[origin.key]


# ---- Where values come from, in the words that TorchDynamo's graphs have for it: `L['x']`, `G['scale']`, ----


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

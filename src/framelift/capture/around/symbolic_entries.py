"""Entries of captures with symbolic numbers: the lines before the graph, and why they say "not mine"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from ... import _core, config
from ..._core import insist, is_a
from ...exc import ConstraintViolation
from ...exits import PLAIN, build_entry
from ...graph.symbols.environment import Symbols
from ...graph.symbols.meanings import FromSize
from ...graph.symbols.relations import NAMESPACE, Preamble, broken_promises, preamble
from ...guards.kinds import tensor_facts
from ...guards.misses import Miss
from ...guards.sentences import where
from ...recording.drawn_numbers import put_state, state_of
from ...vocabulary.outside_exceptions import raise_outside
from ...vocabulary.places import place_of
from ...vocabulary.plain_types import OBJECTS
from ...vocabulary.reasons import Interrupt
from ..records.captures import Input
from ..records.user_names import names_in

if TYPE_CHECKING:
    from ...recording.finished import Finished
    from ...rehearsal.session import Rehearsal

_NAME = re.compile(r"[A-Za-z_]\w*")


class Relations:
    """The relations between an entry's numbers.  `missed` gets the numbers of a call that breaks them."""

    def __init__(self, before: Preamble) -> None:
        self.names = before.names
        self.checks = before.checks
        self.words = before.words
        self.space = {**NAMESPACE, **before.constants}
        self.last: tuple[Any, ...] | None = None
        self._lines, self._generators = before.lines, generators_in(before)
        self._asked: Any = None

    def missed(self, *values: Any) -> Any:
        self.last = values
        return _core.MISS

    def hold(self, inputs: tuple[Any, ...]) -> bool:
        """Return whether an entry would run for these inputs.  Nothing is run and nothing drawn."""
        if self._asked is None:
            names = {**self.space, "MISS": _core.MISS, "missed": self.missed, "PLAIN": _core.PLAIN}
            asked = build_entry(PLAIN, None, "relations", self._lines, names)
            self._asked = putting_back(asked, self._generators) if self._generators else asked
        return self._asked(inputs, ()) is _core.PLAIN

    def mentioned(self, text: str) -> dict[str, str]:
        """The names in a relation, with what the user calls them."""
        return {name: self.words.get(name, name) for name in dict.fromkeys(_NAME.findall(text)) if name in self.names}

    def said(self, text: str) -> str:
        """A relation in the user's names."""
        return _NAME.sub(lambda found: self.words.get(found[0], found[0]) if found[0] in self.names else found[0], text)

    def why(self) -> Miss | None:
        """The relation that the last call did not satisfy."""
        if self.last is None:
            return None
        given = dict(zip(self.names, self.last))
        self.last = None
        for text, line in self.checks:
            try:
                holds = eval(text, dict(self.space), given)
            except Exception as error:
                raise_outside(error)
                holds = False
            if not holds:
                origins = self.mentioned(text)
                values = ", ".join(
                    f"{self.words.get(name, name)} is {given[name]}" for name in given if name in origins
                )
                read = (
                    f" (relied on at {where(line)})"
                    if line
                    else " (the backend relies on it)"
                    if "<=" not in text
                    else ""
                )
                said = self.said(text)
                sentence = f"{said} no longer holds: {values}{read}"
                if text.startswith("2 <= ") and (number := given.get(text[5:])) in (0, 1):
                    sentence = f"{values}, and this capture is for sizes of 2 and more: {number} needs one of its own"
                return Miss(
                    ", ".join(origins.values()),
                    "RELATION",
                    said,
                    values,
                    sentence,
                    place_of(*line) if is_a(line, tuple) else None,
                )
        return Miss("", "RELATION", "", "", "a size or number is not as the capture relied on", None)


def preamble_of(symbols: Symbols, arguments: list[Any] | None, is_checked: bool = True) -> Preamble:
    """The lines that run before the graph."""
    try:
        return preamble(symbols, arguments, symbols.used, is_checked)
    except Exception as error:  # a relation that has no form in Python
        raise_outside(error)
        raise Interrupt("symbolic-number", "a relation between sizes or numbers") from error


def names_for(before: Preamble, relations: Relations) -> dict[str, Any]:
    """Return the globals of those lines."""
    return {**NAMESPACE, **before.constants, "MISS": _core.MISS, "missed": relations.missed, "PLAIN": _core.PLAIN}


def _put_states(kept: list[tuple[Any, Any]]) -> None:
    for generator, state in kept:
        put_state(generator, state)


def generators_in(before: Preamble) -> list[int]:
    """The inputs that are generators."""
    return [len(before.tensors) + i for i in before.drawn.generators]


def putting_back(entry: Any, places: list[int]) -> Any:
    """An entry that draws from generators outside, its inputs at `places`: they are as before where it fails or is not
    for this call.
    """

    def run(inputs: tuple[Any, ...], externals: tuple[Any, ...]) -> Any:
        kept = [(inputs[place], state_of(inputs[place])) for place in places]
        done = False
        try:
            result = entry(inputs, externals)
            done = result is not _core.MISS and result is not _core.PLAIN
            return result
        finally:
            if not done:
                insist(lambda: _put_states(kept))

    return run


def first_given(session: Rehearsal, finished: Finished) -> tuple[Any, ...]:
    """Return the graph's arguments in the call it is captured for: tensors as `Input`, symbols as their numbers."""
    symbols = session.with_symbols()
    # renamed between versions of torch
    name = "backed_var_to_val" if hasattr(symbols.env, "backed_var_to_val") else "var_to_val"
    known = getattr(symbols.env, name)
    hints = {str(symbol): int(value) for symbol, value in known.items() if value.is_Integer}

    def concrete(argument: Any) -> Any:
        if is_a(argument, torch.Tensor):
            record = session.record_of_original(argument)
            return Input(str(record.origin) if record is not None else "drawn", tensor_facts(argument))
        if is_a(argument, OBJECTS):
            return argument
        if is_a(argument, str):
            meaning = symbols.meanings[argument]
            if type(meaning) is FromSize:
                return int(_core.tensor_size(meaning.tensor, meaning.dim))
            argument = symbols.floats.get(argument, hints.get(argument))
        return getattr(argument, "hint", argument)

    return tuple(map(concrete, finished.arguments or ()))


ConstraintViolation.__bases__ = (*ConstraintViolation.__bases__, ConstraintViolationError)


_WAY_OUT = (
    "Change the line that needs the size, or the range that was marked; or mark the size with "
    "framelift.maybe_mark_dynamic, which lets a line fix it."
)


def check_promises(symbols: Symbols, module: torch.nn.Module | None) -> None:
    """Sizes that were marked dynamic must not have become constants.  `module` is the one that was called."""
    broken = broken_promises(symbols)
    if broken and not config.allow_ignore_mark_dynamic:
        raise ConstraintViolation(f"{names_in(module).text('; '.join(broken), True)}\n  fix: {_WAY_OUT}")

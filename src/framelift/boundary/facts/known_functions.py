"""Functions that one rehearsal met: those guarded by their identity, and those guarded by their code alone."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..._core import GuardLog, code_of, id
from ...vocabulary.origins import Origin
from ...vocabulary.reasons import Interrupt


class KnownFunctions:
    """One guarded by its code alone is guarded to be none of the constants of that code."""

    guard: GuardLog

    def __init__(self, distinct: list[Origin]) -> None:
        self._distinct = distinct
        self.origins: dict[int, Origin] = {}  # of functions guarded by their code, by their id
        self._by_code: set[int] = set()  # their code, by its id: to hash code takes long
        # makes the next rehearsal import what such functions are bound to, read or not; None: this one does
        self.read_receivers: Callable[[], None] | None = None
        # id of a code -> functions that are constants, by id, with their place (None: a key), and what keeps the id
        self._constants: dict[int, tuple[dict[int, Origin | None], types.CodeType]] = {}

    def constants_of(self, function: types.FunctionType) -> dict[int, Origin | None]:
        """Return the constants of the same code: their places by their ids."""
        found = self._constants.get(id(code_of(function)))
        return found[0] if found is not None else {}

    def guard_by_code(self, function: types.FunctionType, origin: Origin) -> None:
        """Note that only the code of `function` is guarded."""
        self.origins[id(function)] = origin
        self._by_code.add(id(code_of(function)))
        # functions of one code might be the same one at another call
        self._distinct += filter(None, self.constants_of(function).values())

    def meet(self, function: types.FunctionType, origin: Origin | None) -> None:
        """A function that is guarded by its identity: one guarded by its code might be the same at another call, so it
        is guarded not to be.
        """
        code = code_of(function)
        known, _ = self._constants.setdefault(id(code), ({}, code))
        if id(function) in known:
            return
        known[id(function)] = origin
        elsewhere = self.origins.get(id(function))
        if elsewhere is not None:  # the same one: then it is a constant there too
            self.guard(elsewhere, "IS", function)
        elif id(code) in self._by_code:
            if origin is None:
                raise Interrupt("symbolic-number", "a function made by the same code as one that is a key")
            self._distinct.append(origin)

    def pin(self, function: Any) -> None:
        """Something keeps the function beyond this call, or looks into it unseen: which one it is is a fact, however it
        was guarded so far.
        """
        origin = self.origins.get(id(function))
        if origin is not None:
            self.guard(origin, "IS", function)

    def meet_key(self, key: Any) -> None:
        """A key that is itself inside and outside."""
        if type(key) is types.FunctionType:
            self.meet(key, None)
        elif type(key) is tuple:
            for part in key:
                self.meet_key(part)

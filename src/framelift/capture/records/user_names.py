"""Names as the user knows them: `self.layer.weight`, not the path of a guard; parameters, not `args[0]`."""

from __future__ import annotations

import inspect
import re
import types
from dataclasses import dataclass
from typing import Any

import torch

from ..._core import is_a
from ...guards.misses import Miss
from ...vocabulary.places import Place, first_use, place_of

_TABLE = re.compile(r"\.__dict__\['(?:_modules|_parameters|_buffers)'\]\['(\w+)'\]")
_ATTRIBUTE = re.compile(r"\.__dict__\['(\w+)'\]")
_GLOBALS = re.compile(r"^globals(?: of [\w.]+)?\['(\w+)'\]")
_POSITION = re.compile(r"^args\[(\d+)\]")
_MENTIONED = re.compile(r"\bargs\[\d+\]|\bkwargs\['\w+'\]")
_CLOSURE = re.compile(r"\b(\w+|<lambda>)\.__closure__\[(\d+)\]\.cell_contents")
_READ_AT = re.compile(r" \(read at [^()]*\)$")
_KEYWORD = re.compile(r"^kwargs\['(\w+)'\]")


def plain(path: str) -> str:
    """A guard's path in the words of the source.

    >>> plain("self.__dict__['_modules']['layer'].__dict__['_parameters']['weight']")
    'self.layer.weight'
    """
    return _GLOBALS.sub(r"\1", _attributes(path))


def _attributes(text: str) -> str:
    return _ATTRIBUTE.sub(r".\1", _TABLE.sub(r".\1", text))


@dataclass(frozen=True, slots=True)
class Names:
    """How the root of one compiled callable is shown.

    A module's root is torch's `__call__`, a decorated function's is the decorator's wrapper; the user wrote what lies
    below.
    """

    title: str = ""
    code: types.CodeType | None = None  # of what the user wrote
    taken: int = 1  # parameters that the root takes before its `*args`
    closure: tuple[str, tuple[str, ...]] = ("", ())  # the captured function's name, and its free variables

    def origin(self, path: str, root: bool) -> str:
        """A guard's path; parameters of what the user wrote by their names."""
        path = self._variables(plain(path))
        if not root or self.code is None:
            return path
        name, rest = self._named(path)
        return f"{name}{rest}" if name else path

    def _named(self, path: str) -> tuple[str, str]:
        """The parameter of what the user wrote that a path begins with, "" where it is none, and the rest of it."""
        if found := _POSITION.match(path):
            return self.parameter(int(found[1])), path[found.end() :]
        found = _KEYWORD.match(path)
        return (found[1], path[found.end() :]) if found else ("", path)

    def text(self, text: str, root: bool) -> str:
        """A sentence or relation that mentions such paths."""
        text = self._variables(_attributes(text)) if text else ""
        if not root or self.code is None:
            return text
        return _MENTIONED.sub(lambda found: self.origin(found[0], True), text)

    def _variables(self, text: str) -> str:
        """Free variables of the captured function by their names."""
        function, names = self.closure
        return _CLOSURE.sub(
            lambda found: names[int(found[2])] if found[1] == function and int(found[2]) < len(names) else found[0],
            text,
        )

    def place(self, path: str, place: Place | None, root: bool) -> Place | None:
        """Where such a parameter is first used, rather than where it is handed on."""
        if not root or self.code is None:
            return place
        name, _ = self._named(path)
        return place_of(self.code, first_use(self.code, name)) if name in self.code.co_varnames else place

    def sentence(self, miss: Miss, root: bool) -> str:
        """Why an entry did not serve a call; a parameter is read where the user first uses it."""
        text, place = self.text(_GLOBALS.sub(r"\1", miss.sentence), root), self.place(miss.origin, miss.place, root)
        return text if place is miss.place else _READ_AT.sub(f" (read at {place})", text)

    def function(self, name: str, file: str, line: int) -> str:
        """A captured function: by the name and the place of what the user wrote."""
        if self.code is not None:
            name, file, line = self.title or name, self.code.co_filename, self.code.co_firstlineno
        return f"{name} {file.rpartition('/')[2]}:{line}"

    def parameter(self, number: int) -> str:
        """The name of a positional argument of the call, "" where the function names none."""
        assert self.code is not None
        names = self.code.co_varnames[self.taken : self.code.co_argcount]
        return names[number] if number < len(names) else ""


def names_of(native: Any) -> Names:
    """The names of a compiled callable."""
    return names_below(native.function, native.bound[0] if native.bound else None)


def names_below(function: Any, module: Any) -> Names:
    """The names of a root; `module` is its first argument, where that is known."""
    if is_a(module, torch.nn.Module) and function.__code__ in MODULE_CALLS and (found := names_in(module)).title:
        return found
    below = inspect.unwrap(function) if callable(function) else None
    if below is not function and is_a(below, types.FunctionType) and is_a(function, types.FunctionType):
        return Names(below.__qualname__, below.__code__, function.__code__.co_argcount)
    return names_inside(function) if is_a(function, types.FunctionType) else Names()


def names_inside(function: types.FunctionType) -> Names:
    """The names of a function that is captured as it is written."""
    return Names(closure=(function.__name__, function.__code__.co_freevars)) if function.__closure__ else Names()


def names_in(module: torch.nn.Module | None) -> Names:
    """The names that the call of a module is known by."""
    written: Any = getattr(type(module), "forward", None)
    forward = inspect.unwrap(written) if module is not None else None  # below decorators that keep what they wrap
    return Names(forward.__qualname__, forward.__code__) if is_a(forward, types.FunctionType) else Names()


MODULE_CALLS = frozenset({torch.nn.Module.__call__.__code__})

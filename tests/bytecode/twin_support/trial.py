"""Trials: a whole process whose Python code runs as twins over pass-through probes, to compare with a plain run.

`immerse` makes twins of everything: functions of modules already imported get the twin as their `__code__`, modules
imported later run as twins from their first line, and functions made by twins become twins when they are made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

from bytecode.dialects import current
from bytecode.maker import twin_with
from twin_support.passthrough import few_frames

__all__ = ["Trial"]

#: modules the probes and the import machinery stand on
_LEFT_OUT = ("importlib", "_frozen_importlib", "zipimport", "opcode", "dis", "bytecode", __package__)


class Trial:
    """Makes twins over pass-through probes and remembers them.  Keyword arguments put other probes in their place."""

    def __init__(self, **instead: Callable[..., Any]) -> None:
        self._dialect, probes = few_frames(current())
        self._probes = probes | {"make_function": self.swap} | instead
        self._twins: dict[int, tuple[CodeType, CodeType]] = {}
        self._made: set[int] = set()

    def twin(self, code: CodeType) -> CodeType:
        """The twin of a code object; a twin is its own."""
        if id(code) in self._made:
            return code
        known = self._twins.get(id(code))
        if known is None:
            twin, _ = twin_with(self._dialect, code, self._probes, False)
            known = self._twins[id(code)] = (code, twin)
            self._made.add(id(twin))
        return known[1]

    def __len__(self) -> int:
        return len(self._twins)

    def swap(self, function: FunctionType) -> FunctionType:
        """Give a function its twin."""
        function.__code__ = self.twin(function.__code__)
        return function

    def swap_module(self, module: ModuleType) -> int:
        """Give twins to all functions and methods defined in a module; their number."""
        count, seen, ahead = 0, set(), list(vars(module).values())
        while ahead:
            value = ahead.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                self.swap(value)
                count += 1
            elif isinstance(value, type) and value.__module__ == module.__name__:
                ahead += vars(value).values()
            elif type(value) in _WRAPPERS:
                ahead += (getattr(value, field, None) for field in _WRAPPERS[type(value)])
        return count

    def immerse(self, leave_out: Iterable[str] = ()) -> int:
        """From now on the process runs as twins.  Returns how many functions were swapped at once."""
        left_out = (*_LEFT_OUT, *leave_out)
        count = sum(
            self.swap_module(module)
            for name, module in list(sys.modules.items())
            if not name.startswith(left_out) and isinstance(module, ModuleType)
        )
        plain = SourceFileLoader.get_code
        trial = self

        def get_code(self: SourceFileLoader, fullname: str) -> Any:
            code = plain(self, fullname)
            return code if code is None or fullname.startswith(left_out) else trial.twin(code)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
        return count


_WRAPPERS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}

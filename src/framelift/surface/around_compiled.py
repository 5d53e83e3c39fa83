"""Wrappers of compiled callables are such callables themselves: they print, report and bind as the one inside does."""

from __future__ import annotations

import types
from typing import Any


class AroundCompiled:
    """A compiled callable whose calls do something besides; subclasses say what in `__call__`."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.__dict__.update(compiled.__dict__)
        self.__wrapped__ = compiled.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_compiled"], name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return repr(self._compiled)

    def __str__(self) -> str:
        return str(self._compiled)

"""Every option: name, default, type, meaning.  One table; unknown names and wrong types are errors.

>>> from framelift import config
>>> with config.patch(recompile_limit=4):
...     config.recompile_limit
4
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["OPTIONS", "Option", "patch"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option.  Its environment variable is FRAMELIFT_<NAME>."""

    default: Any
    meaning: str


OPTIONS: dict[str, Option] = {
    "disable": Option(False, "compiled callables run plain Python"),
    "recompile_limit": Option(16, "captures kept per callable before further ones run in plain Python, with a warning"),
    "large_container": Option(4096, "a container with more entries than this interrupts instead of being imported whole"),
    "verify_guards": Option(False, "run the plain Python meaning of every guard beside the native one and compare (for tests)"),
    "strict": Option(False, "a defect of framelift is an error instead of a warning and plain Python (for tests)"),
    "verbose_errors": Option(False, "keep framelift's own frames in the tracebacks of errors"),
}


def _environment(name: str, option: Option) -> Any:
    text = os.environ.get(f"FRAMELIFT_{name.upper()}")
    if text is None:
        return option.default
    if isinstance(option.default, bool):
        return text.lower() not in ("", "0", "false", "no")
    return type(option.default)(text)


#: called with the new value when an option is set, for options that native code reads too
WATCHERS: dict[str, Callable[[Any], Any]] = {}


class _Config(types.ModuleType):
    """The module itself, with checked assignment."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            _check(name, value)
        super().__setattr__(name, value)
        if name in WATCHERS:
            WATCHERS[name](value)


def _check(name: str, value: Any) -> None:
    option = OPTIONS.get(name)
    if option is None:
        raise AttributeError(f"framelift.config has no option {name!r}; the options are {', '.join(OPTIONS)}")
    if type(value) is not type(option.default):
        raise TypeError(f"framelift.config.{name} takes {type(option.default).__name__}, not {type(value).__name__}")


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Set options for a block (or, as a decorator, for a function), and restore them."""
    module = sys.modules[__name__]
    for name, value in changes.items():
        _check(name, value)
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


globals().update({name: _environment(name, option) for name, option in OPTIONS.items()})
sys.modules[__name__].__class__ = _Config

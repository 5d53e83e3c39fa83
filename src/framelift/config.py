"""Every option: name, default, type, meaning.  One table; unknown names and wrong types are errors.

Options that TorchDynamo has too are spelled as there.  Those that steer a mechanism framelift does not have are
accepted and change nothing: a warning says so once, with the reason (`OPTIONS[name].ignored`).

>>> from framelift import config
>>> with config.patch(recompile_limit=4):
...     config.recompile_limit
4
>>> config.nonsense = 1
Traceback (most recent call last):
framelift.exc.UnknownOption: framelift.config has no option 'nonsense'; framelift.config.OPTIONS lists them
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ._core import insist
from .exc import UnknownOption, WrongType
from .vocabulary.environment import unknown_variables
from .vocabulary.log import warn
from .vocabulary.options import OPTIONS, Option
from .vocabulary.scopes import scope

__all__ = ["OPTIONS", "WATCHERS", "Option", "get_config_copy", "patch"]

#: called with the new value when an option is set, for options that native code reads too
WATCHERS: dict[str, Callable[[Any], Any]] = {}
_F = TypeVar("_F")


def _environment(name: str, option: Option) -> Any:
    """The value at start: FRAMELIFT_<NAME>, else torch.compile's variable for the same thing, else the default.  A text
    that the option does not take is named in a warning.
    """
    own = f"FRAMELIFT_{name.upper()}"
    for variable in (own, option.torch_variable):
        text = os.environ.get(variable) if variable else None
        if text is not None:
            try:
                return option.from_text(text, lenient=variable != own)
            except ValueError:
                taken = "nothing" if option.ignored or option.by_torch else option.takes.replace("bool", "0 or 1")
                warn(f"the environment variable {variable} is {text!r}, which is not used: it takes {taken}")
    return option.fresh()


class _Config(types.ModuleType):
    """The module itself, with checked assignment."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            name = check(name, value)
            warn_without_effect(name, value, OPTIONS[name].default)
        super().__setattr__(name, value)
        if name in WATCHERS:
            WATCHERS[name](value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of every module, by unittest for one
            raise AttributeError(name)
        option = OPTIONS.get(name)
        if option is not None and option.alias:
            return getattr(self, option.alias)
        raise _unknown(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *OPTIONS})


def _unknown(name: str) -> UnknownOption:
    near = difflib.get_close_matches(name, OPTIONS, n=3, cutoff=0.75)
    return UnknownOption(
        f"framelift.config has no option {name!r}"
        + (f"; did you mean {' or '.join(near)}?" if near else "; framelift.config.OPTIONS lists them")
    )


def check(name: str, value: Any) -> str:
    """The option's own name (aliases followed); an error when it does not exist or takes another type."""
    option = OPTIONS.get(name)
    if option is None:
        raise _unknown(name)
    if option.alias:
        name, option = option.alias, OPTIONS[option.alias]
    if not option.accepts(value):
        given = repr(value) if option.choices and type(value) is str else type(value).__name__
        raise WrongType(f"framelift.config.{name} takes {option.takes}, not {given}")
    return name


_warned: set[str] = set()


def warn_without_effect(name: str, value: Any, default: Any, where: str = "framelift.config") -> None:
    """Say once that an option has no effect here, and why, when it is set to something else than its default."""
    option = OPTIONS[name]
    if option.ignored and name not in _warned and value != default:
        _warned.add(name)
        warn(f"{where}.{name} = {value!r} has no effect: {option.ignored}")


def get_config_copy() -> Options:
    """All options with their present values.

    >>> from framelift import config
    >>> config.get_config_copy()["recompile_limit"] == config.recompile_limit
    True
    """
    module = sys.modules[__name__]
    found: Any = {name: getattr(module, name) for name, option in OPTIONS.items() if not option.alias}
    return found


class patch:
    """Set options for a block, or as a decorator for a function or for the tests of a class, and restore them.

    `patch(name=value)`, `patch("name", value)` and `patch({"name": value})` are equal.

    >>> from framelift import config
    >>> @config.patch(suppress_errors=True)
    ... def f():
    ...     return config.suppress_errors
    >>> f(), config.suppress_errors
    (True, False)
    """

    @overload
    def __init__(self, first: str, value: Any) -> None: ...
    @overload
    def __init__(self, first: Mapping[str, Any] | None = None, **changes: Unpack[Options]) -> None: ...
    def __init__(self, first: str | Mapping[str, Any] | None = None, value: Any = None, **changes: Any) -> None:
        if isinstance(first, str):
            changes = {first: value, **changes}
        elif first is not None:
            changes = {**first, **changes}
        self.changes = {check(name, new): new for name, new in changes.items()}
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        module = sys.modules[__name__]
        self.before.append({name: getattr(module, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(module, name, value)

    @classmethod
    @scope
    def block(cls, **changes: Any) -> Iterator[None]:
        """The same for a block of framelift's own, which ends whatever strikes it."""
        module = sys.modules[__name__]
        before = {name: getattr(module, name) for name in changes}

        def restore() -> None:
            for name, value in before.items():
                setattr(module, name, value)

        try:
            for name, value in changes.items():
                setattr(module, name, value)
            yield
        finally:
            insist(restore)

    def __exit__(self, *exc: Any) -> None:
        for name, value in self.before.pop().items():
            setattr(sys.modules[__name__], name, value)

    def __call__(self, target: _F) -> _F:
        if isinstance(target, type):
            for name, member in list(vars(target).items()):
                if name.startswith("test") and isinstance(member, types.FunctionType):
                    setattr(target, name, self(member))
            return target

        function: Any = target

        @functools.wraps(function)
        def patched(*args: Any, **kwargs: Any) -> Any:
            with patch(self.changes):
                return function(*args, **kwargs)

        made: Any = patched
        return made


if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .vocabulary.option_types import *  # noqa: F403
    from .vocabulary.option_types import Options


globals().update({name: _environment(name, option) for name, option in OPTIONS.items() if not option.alias})
for _name, _words in unknown_variables().items():
    warn(f"the environment variable {_name} is set, and {_words}")
sys.modules[__name__].__class__ = _Config

"""Every option: name, default, type, meaning.  One table; unknown names and wrong types are errors.

Options that TorchDynamo has too are spelled as there.  Those that steer a mechanism framelift does not have are
accepted and change nothing: a warning says so once, with the reason (`OPTIONS[name].ignored`).

>>> from framelift import config
>>> with config.patch(recompile_limit=4):
...     config.recompile_limit
4
>>> config.nonsense = 1
Traceback (most recent call last):
AttributeError: framelift.config has no option 'nonsense'; framelift.config.OPTIONS lists them
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
from .vocabulary.options import OPTIONS, Option
from .vocabulary.scopes import scope

__all__ = ["OPTIONS", "WATCHERS", "Option", "get_config_copy", "patch"]

#: called with the new value when an option is set, for options that native code reads too
WATCHERS: dict[str, Callable[[Any], Any]] = {}
_F = TypeVar("_F")
_FALSE, _TRUE = ("", "0", "false", "no", "off"), ("1", "true", "yes", "on")


def _environment(name: str, option: Option) -> Any:
    """The value at start: FRAMELIFT_<NAME>, else torch.compile's variable for the same thing, else the default."""
    text = os.environ.get(f"FRAMELIFT_{name.upper()}")
    if text is None and option.torch_variable:
        text = os.environ.get(option.torch_variable)
    if text is None:
        return option.fresh()
    if text.lower() in _FALSE + _TRUE and (isinstance(option.default, bool) or bool in option.also):
        return text.lower() not in _FALSE
    if isinstance(option.default, bool):
        return text if str in option.also else True
    return type(option.default)(text)


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


def _unknown(name: str) -> AttributeError:
    near = difflib.get_close_matches(name, OPTIONS, n=3, cutoff=0.75)
    return AttributeError(
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
        raise TypeError(f"framelift.config.{name} takes {type(option.default).__name__}, not {type(value).__name__}")
    return name


_warned: set[str] = set()


def warn_without_effect(name: str, value: Any, default: Any, where: str = "framelift.config") -> None:
    """Say once that an option has no effect here, and why, when it is set to something else than its default."""
    option = OPTIONS[name]
    if option.ignored and name not in _warned and value != default:
        from .vocabulary.log import warn  # not needed by most programs

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
sys.modules[__name__].__class__ = _Config

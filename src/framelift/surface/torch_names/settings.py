"""Writes of a program to torch's configuration: options that framelift has are set here, too; others warn."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

from ... import config
from ...torch_ports.compiling import config_module
from ...vocabulary.own_code import first_above, is_own_code
from ...vocabulary.torch_code import TORCH

_NAME = "torch._dynamo.config"
#: what a program's `patch` goes through
_BETWEEN = frozenset({config_module.__file__, contextlib.__file__})


def follow(settings: types.ModuleType) -> Callable[[], None]:
    """From now on framelift.config follows torch._dynamo.config, beginning with what was set before; what is returned
    ends that.
    """
    cls = type(settings)
    write = cls.__setattr__

    def follow(self: Any, name: str, value: Any) -> None:
        write(self, name, value)
        if self is settings and name in config.OPTIONS and _is_the_programs():
            if _ends_a_patch() and patched.get(name):
                setattr(config, name, patched[name].pop())
                return
            patched.setdefault(name, []).append(getattr(config, name))
            config.warn_without_effect(name, value, getattr(settings._config.get(name), "default", None), _NAME)
            _take_over(name, value)

    cls.__setattr__ = follow  # type: ignore[method-assign]  # replaced on purpose
    patched: dict[str, list[Any]] = {}  # framelift's own values, which need not be torch's
    before = {name: getattr(config, name) for name in _written(settings)}
    for name in before:
        value = getattr(settings, name)
        config.warn_without_effect(name, value, settings._config[name].default, _NAME)
        _take_over(name, value)

    def undo() -> None:
        cls.__setattr__ = write  # type: ignore[method-assign]  # put back
        for name, value in before.items():
            setattr(config, name, value)

    return undo


def _written(settings: Any) -> list[str]:
    """The options that the program has set, and that mean something here."""
    return [
        name
        for name, entry in settings._config.items()
        if name in config.OPTIONS
        and not config.OPTIONS[name].alias
        and not settings._is_default(name)
        and getattr(settings, name) != entry.default  # torch itself sets options for a moment, and back
        and getattr(entry, "alias", None) is None
    ]


def _is_the_programs() -> bool:
    """Return whether the program writes, and not torch or framelift on their own account."""
    frame = first_above(lambda one: one.f_code.co_filename not in (__file__, *_BETWEEN))
    return frame is None or not (is_own_code(frame.f_code) or frame.f_code.co_filename.startswith(TORCH))


def _ends_a_patch() -> bool:
    """Return whether a block of the program's ends in which a setting was another."""
    exit_ = ("__exit__", config_module.__file__)

    def is_sought(frame: types.FrameType) -> bool:
        code = frame.f_code
        return (code.co_name, code.co_filename) == exit_ or code.co_filename not in (__file__, *_BETWEEN)

    frame = first_above(is_sought)
    return frame is not None and (frame.f_code.co_name, frame.f_code.co_filename) == exit_


def _take_over(name: str, value: Any) -> None:
    option = config.OPTIONS.get(name)
    if option is not None and not option.ignored:
        with contextlib.suppress(TypeError):  # an option that takes more kinds of values there
            setattr(config, name, value)

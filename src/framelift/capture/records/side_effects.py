"""Changes that an entry makes beside its graph: `config.side_effect_replay_policy`, and hooks on its code."""

from __future__ import annotations

import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ... import config
from ...exc import IncorrectUsage
from .captures import Capture

#: called with a capture and its entry's function, before the entry is used: they may replace its code
CODE_HOOKS: list[Callable[[Capture, types.FunctionType], Any]] = []

_changed: weakref.WeakKeyDictionary[types.CodeType, tuple[str, ...]] = weakref.WeakKeyDictionary()


def show_entry(capture: Capture, entry: Any, changed: tuple[str, ...]) -> None:
    """An entry was made that changes the objects at these places."""
    capture.changed = changed
    if changed and config.side_effect_replay_policy in ("warn", "error"):
        text = (
            f"While compiling, we found certain side effects happened in {capture.name}. "
            f"Here are the list of potential sources you can double check: {list(changed)}"
        )
        if config.side_effect_replay_policy == "error":
            raise IncorrectUsage(text)
        warnings.warn(text, stacklevel=2)
    if CODE_HOOKS:
        _changed[entry.__code__] = changed
        for hook in CODE_HOOKS:
            hook(capture, entry)
        _changed[entry.__code__] = changed


def side_effects_of(code: types.CodeType) -> tuple[str, ...] | None:
    """The places that an entry with this code changes, for hooks on code; None: it is no entry's code."""
    return _changed.get(code)

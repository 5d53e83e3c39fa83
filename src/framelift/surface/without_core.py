"""Fallback of `import framelift` where no native core fits the running torch: programs run, nothing is compiled."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

from ..exc import UnsupportedPlatform


def names(reason: str) -> Callable[[str], Any]:
    """Say the reason once, and return what gives the public names: those that a program needs to run have no effect,
    others raise.
    """
    sentence = f"{reason}.  Until then framelift.compile compiles nothing, and torch.compile is as torch has it."
    warnings.warn(sentence, stacklevel=3)

    def compile(model: Any = None, **options: Any) -> Any:
        return (lambda function: function) if model is None else model

    harmless: dict[str, Any] = {
        "compile": compile,
        "install": lambda: None,
        "uninstall": lambda: None,
        "installed": contextlib.nullcontext,
        "is_installed": lambda: False,
        "is_supported": lambda: False,
        "reset": lambda: None,
    }

    def find(name: str) -> Any:
        if name in harmless:
            return harmless[name]
        raise UnsupportedPlatform(f"framelift.{name} cannot be used: {reason}.")

    return find

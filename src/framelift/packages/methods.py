"""Methods of compiled callables and modules: loaded when one of them is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .. import _core
from ..capture.module_wrapper import OptimizedModule


def _later(home: str, name: str) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(f".{home}", __package__), name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


_core.connect(aot_compile=_later("aot", "aot_compile"))
for _name, _function in {
    "_aot_compile": "aot_compile_module",
    "_save_aot_compiled_module": "save_aot_module",
    "_load_aot_compiled_module": "load_aot_module",
}.items():
    setattr(OptimizedModule, _name, _later("modules", _function))

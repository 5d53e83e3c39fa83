"""framelift: Python frames become FX graphs, guards and readable entries, by running them once over stand-ins.

>>> import torch, framelift
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(torch.ones(2))
tensor([2., 2.])

Importing framelift costs little: its parts, and what they need of torch and sympy, are loaded when a public name
is used for the first time.  All that calls need is loaded then, so that nothing depends on which name came first;
the rest (export, packages, testing, the drop-in) is loaded, all of it, when a name of it is used.
`__init__.pyi` tells type checkers the names.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch

from .surface import native_core, without_core
from .vocabulary.version import __version__  # noqa: F401

_replaced = None  # gives the public names where no core fits
try:
    _core = native_core.load(torch.__version__)  # it needs torch's libraries
except ImportError as error:
    _replaced = without_core.names(str(error))
else:
    from . import capture, config, exc  # noqa: F401

    # Imported once, the package is no longer put into this namespace: `framelift.capture` is the function of that name.
    del capture

#: public modules
_MODULES = {"export": "export", "testing": "testing", "decorators": "surface.decorators", "drop_in": "surface.drop_in"}
#: where the other public names are defined
_HOMES = {
    "surface.compiling": "compile is_supported reset stats wait",
    "backends.builtin": "aot_autograd",
    "backends.registry": "get_default_backend list_backends lookup_backend set_default_backend",
    "backends.registrations": "register_backend",
    "surface.capturing": "GraphCapture fullgraph_capture",
    "surface.comptime": "comptime",
    "surface.engine": "CapturedGraph capture load_capture",
    "surface.drop_in": "install installed is_installed uninstall",
    "surface.decorators": (
        "allow_in_graph assume_constant_result disable disallow_in_graph dont_skip_tracing "
        "error_on_graph_break forbid_in_graph graph_break is_dynamo_disable_recursive "
        "nonstrict_trace run skip skip_frame step_unsupported substitute_in_graph"
    ),
    "surface.explain": "dry_run explain",
    "vocabulary.log": "set_logs",
    "packages.aot": "AOTCompiledFunction load_compiled_function",
    "packages.modules": "ModelInput",
    "packages.package": "load_package save_package",
    "packages.show": "show_package",
    "report": "save_repro",
    "capture.records.callbacks": "on_compile_end on_compile_start register_entry_hook",
    "capture.records.counters": "counters",
    "capture.module_wrapper": "OptimizedModule",
    "capture.records.recompiles": "Recompile",
    "surface.dynamic_shapes": "mark_dynamic mark_static mark_static_address mark_unbacked maybe_mark_dynamic",
    "surface.guard_collectives": "set_enable_guard_collectives",
    "surface.stances": "set_stance",
}
_HOME_OF = _MODULES | {name: home for home, names in _HOMES.items() for name in names.split()}
_ALL_HOMES = tuple(dict.fromkeys(_HOME_OF.values()))
__all__ = sorted({"config", "exc", *_HOME_OF} - {"decorators", "drop_in"})  # noqa: PLE0605  (__init__.pyi has them)

#: what a call of a compiled function does not need
_LATER = ("export", "testing", "packages.", "surface.drop_in", "surface.engine")


def _load(homes: Iterable[str]) -> None:
    """Load the public names of these homes."""
    for home in homes:
        module = importlib.import_module(f".{home}", __name__)
        globals().update({name: module for name, place in _MODULES.items() if place == home})
        globals().update({name: getattr(module, name) for name in _HOMES.get(home, "").split()})


def __getattr__(name: str) -> Any:
    if _replaced is not None and name in _HOME_OF:
        return _replaced(name)
    if not name.startswith("_") and _replaced is None:
        later = _HOME_OF.get(name, "").startswith(_LATER)
        _load(_ALL_HOMES if later else [home for home in _ALL_HOMES if not home.startswith(_LATER)])
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

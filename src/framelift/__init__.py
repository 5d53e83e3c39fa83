"""framelift: Python frames become FX graphs, guards and readable entries, by running them once over stand-ins.

>>> import torch, framelift
>>> f = framelift.compile(lambda x: x * 2, backend="eager")
>>> f(torch.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import torch  # noqa: F401  (the native core needs its libraries)

try:
    from . import _core  # noqa: F401
except ImportError as error:
    raise ImportError(f"framelift's native core does not fit or was not built for this Python and torch {torch.__version__}: in framelift's source folder, "
                      f"run `pip install --no-build-isolation .` or `make build`.  ({error})") from None

from . import config, exc, export, testing
from .surface import decorators, drop_in, dynamic_shapes as shapes
from .surface.compiling import compile, is_supported, reset, stats, wait
from .backends.builtin import aot_autograd
from .backends.registry import (
    get_default_backend, list_backends, lookup_backend, register_backend, set_default_backend,
)
from .surface.capturing import GraphCapture, fullgraph_capture
from .surface.comptime import comptime
from .surface.drop_in import install, installed, is_installed, uninstall
from .surface.decorators import (
    allow_in_graph, assume_constant_result, disable, disallow_in_graph, dont_skip_tracing, error_on_graph_break,
    forbid_in_graph, graph_break, is_dynamo_disable_recursive, nonstrict_trace, run, skip, skip_frame,
    step_unsupported, substitute_in_graph,
)
from .surface.explain import dry_run, explain
from .vocabulary.log import set_logs
from .report import save_repro
from .capture.records.callbacks import on_compile_end, on_compile_start, register_entry_hook
from .capture.records.counters import counters
from .capture.module_wrapper import OptimizedModule
from .capture.records.recompiles import Recompile
from .surface.dynamic_shapes import mark_dynamic, mark_static, mark_static_address, mark_unbacked, maybe_mark_dynamic
from .surface.stances import set_stance

# one a line, so that additions do not collide
__all__ = [
    "GraphCapture",
    "OptimizedModule",
    "Recompile",
    "allow_in_graph",
    "aot_autograd",
    "assume_constant_result",
    "compile",
    "comptime",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "dont_skip_tracing",
    "dry_run",
    "error_on_graph_break",
    "exc",
    "explain",
    "export",
    "forbid_in_graph",
    "fullgraph_capture",
    "get_default_backend",
    "graph_break",
    "install",
    "installed",
    "is_dynamo_disable_recursive",
    "is_installed",
    "is_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "on_compile_end",
    "on_compile_start",
    "register_backend",
    "register_entry_hook",
    "reset",
    "run",
    "save_repro",
    "set_default_backend",
    "set_logs",
    "set_stance",
    "skip",
    "skip_frame",
    "shapes",
    "stats",
    "step_unsupported",
    "substitute_in_graph",
    "testing",
    "uninstall",
    "wait",
]
__version__ = "0.1.0"

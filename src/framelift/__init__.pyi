# The public names, for type checkers: __init__.py loads them when one is used for the first time.
from . import config as config, exc as exc, export as export, testing as testing
from .surface import decorators as decorators, drop_in as drop_in
from .surface.compiling import (
    compile as compile,
    is_supported as is_supported,
    reset as reset,
    stats as stats,
    wait as wait,
)
from .backends.builtin import aot_autograd as aot_autograd
from .backends.registrations import register_backend as register_backend
from .backends.registry import (
    get_default_backend as get_default_backend,
    list_backends as list_backends,
    lookup_backend as lookup_backend,
    set_default_backend as set_default_backend,
)
from .surface.capturing import GraphCapture as GraphCapture, fullgraph_capture as fullgraph_capture
from .surface.engine import CapturedGraph as CapturedGraph, capture as capture, load_capture as load_capture
from .surface.comptime import comptime as comptime
from .surface.drop_in import (
    install as install,
    installed as installed,
    is_installed as is_installed,
    uninstall as uninstall,
)
from .surface.decorators import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    disallow_in_graph as disallow_in_graph,
    dont_skip_tracing as dont_skip_tracing,
    error_on_graph_break as error_on_graph_break,
    forbid_in_graph as forbid_in_graph,
    graph_break as graph_break,
    is_dynamo_disable_recursive as is_dynamo_disable_recursive,
    nonstrict_trace as nonstrict_trace,
    run as run,
    skip as skip,
    skip_frame as skip_frame,
    step_unsupported as step_unsupported,
    substitute_in_graph as substitute_in_graph,
)
from .surface.explain import dry_run as dry_run, explain as explain
from .vocabulary.log import set_logs as set_logs
from .packages.aot import (
    AOTCompiledFunction as AOTCompiledFunction,
    load_compiled_function as load_compiled_function,
)
from .packages.modules import ModelInput as ModelInput
from .packages.package import load_package as load_package, save_package as save_package
from .packages.show import show_package as show_package
from .report import save_repro as save_repro
from .capture.records.callbacks import (
    on_compile_end as on_compile_end,
    on_compile_start as on_compile_start,
    register_entry_hook as register_entry_hook,
)
from .capture.records.counters import counters as counters
from .capture.module_wrapper import OptimizedModule as OptimizedModule
from .capture.records.recompiles import Recompile as Recompile
from .surface.dynamic_shapes import (
    mark_dynamic as mark_dynamic,
    mark_static as mark_static,
    mark_static_address as mark_static_address,
    mark_unbacked as mark_unbacked,
    maybe_mark_dynamic as maybe_mark_dynamic,
)
from .surface.guard_collectives import set_enable_guard_collectives as set_enable_guard_collectives
from .surface.stances import set_stance as set_stance

__version__: str

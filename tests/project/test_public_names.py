"""What users may rely on.  Taking a name away needs a new version and a line in the changelog."""

from __future__ import annotations

import framelift

NAMES = """
AOTCompiledFunction
CapturedGraph
GraphCapture
ModelInput
OptimizedModule
Recompile
allow_in_graph
aot_autograd
assume_constant_result
capture
compile
comptime
config
counters
disable
disallow_in_graph
dont_skip_tracing
dry_run
error_on_graph_break
exc
explain
export
forbid_in_graph
fullgraph_capture
get_default_backend
graph_break
install
installed
is_dynamo_disable_recursive
is_installed
is_supported
list_backends
load_capture
load_compiled_function
load_package
lookup_backend
mark_dynamic
mark_static
mark_static_address
mark_unbacked
maybe_mark_dynamic
nonstrict_trace
on_compile_end
on_compile_start
register_backend
register_entry_hook
reset
run
save_package
save_repro
set_default_backend
set_enable_guard_collectives
set_logs
set_stance
show_package
skip
skip_frame
stats
step_unsupported
substitute_in_graph
testing
uninstall
wait
""".split()


def test_the_public_names() -> None:
    assert sorted(framelift.__all__) == NAMES
    assert all(getattr(framelift, name) is not None for name in NAMES)

# The options of framelift.config, for type checkers.  Made by `python tools/option_types.py`.
from collections.abc import Callable
from typing import Any, Literal, TypedDict

disable: bool
recompile_limit: int
cache_size_limit: int
fail_on_recompile_limit_hit: bool
fail_on_cache_limit_hit: bool
accumulated_recompile_limit: int
accumulated_cache_size_limit: int
debug_backend_override: str
debug_dynamo_config_override: str
debug_inductor_config_override: str
side_effect_replay_policy: Literal["silent", "info", "warn", "error"]
record_compile_time_instruction_count: bool
compiled_autograd: bool
optimize_ddp: bool | str
raise_on_ctx_manager_usage: bool
run_gc_after_compile: bool
prepare_freezing: bool
cprofile: bool
dynamo_profiler: bool | str
error_on_recompile: bool
large_container: int
repeated_layers: Literal["auto", "always", "off"]
second_tier: Literal["auto", "now", "off"]
use_graph_deduplication: bool
inline_invoke_subgraph: bool
inline_single_use_invoke_subgraph: bool
background: Literal["on", "off", "manual"]
cache: Literal["auto"] | bool
caching_precompile: bool
strict_precompile: bool
cache_dir: str
cache_url: str
cache_key: str
record_captures: bool
enable_aot_compile: bool
cache_size: int
specialize_int: bool
specialize_float: bool
assume_static_by_default: bool
automatic_dynamic_shapes: bool
automatic_dynamic_local_pgo: bool
automatic_dynamic_exclusion_guard: bool
automatic_dynamic_shapes_mark_as: Literal["dynamic", "unbacked"]
capture_scalar_outputs: bool
capture_dynamic_output_shape_ops: bool
allow_ignore_mark_dynamic: bool
suppress_errors: bool
strict: bool
verbose: bool
verbose_errors: bool
verify_guards: bool
verify_correctness: bool
error_on_nested_fx_trace: bool
force_compile_during_fx_trace: bool
error_on_nested_jit_trace: bool
allow_rnn: bool
error_on_dynamo_callback_in_fullgraph_compiled_code: bool
install_free_tensors: bool
ignore_logging_functions: set[Callable[..., object]]
ignore_logger_methods: set[Callable[..., object]]
reorderable_logging_functions: set[Callable[..., object]]
repro_after: Any
repro_level: Any
repro_forward_only: Any
repro_tolerance: Any
repro_ignore_non_fp: Any
same_two_models_use_fp64: Any
use_lazy_graph_module: Any
log_file_name: Any
fake_tensor_cache_enabled: Any
fake_tensor_cache_crosscheck_enabled: Any
log_compilation_metrics: Any
debug_dir_root: Any
cudagraph_backend_keep_input_mutation: Any
cudagraph_backend_support_input_mutation: Any
raise_on_unsafe_aot_autograd: Any
pt2_compile_id_prefix: Any
leaf_function_validate_outputs: Any
leaf_function_check_escaped_gradients: Any

class Options(TypedDict, total=False):
    disable: bool
    recompile_limit: int
    cache_size_limit: int
    fail_on_recompile_limit_hit: bool
    fail_on_cache_limit_hit: bool
    accumulated_recompile_limit: int
    accumulated_cache_size_limit: int
    debug_backend_override: str
    debug_dynamo_config_override: str
    debug_inductor_config_override: str
    side_effect_replay_policy: Literal["silent", "info", "warn", "error"]
    record_compile_time_instruction_count: bool
    compiled_autograd: bool
    optimize_ddp: bool | str
    raise_on_ctx_manager_usage: bool
    run_gc_after_compile: bool
    prepare_freezing: bool
    cprofile: bool
    dynamo_profiler: bool | str
    error_on_recompile: bool
    large_container: int
    repeated_layers: Literal["auto", "always", "off"]
    second_tier: Literal["auto", "now", "off"]
    use_graph_deduplication: bool
    inline_invoke_subgraph: bool
    inline_single_use_invoke_subgraph: bool
    background: Literal["on", "off", "manual"]
    cache: Literal["auto"] | bool
    caching_precompile: bool
    strict_precompile: bool
    cache_dir: str
    cache_url: str
    cache_key: str
    record_captures: bool
    enable_aot_compile: bool
    cache_size: int
    specialize_int: bool
    specialize_float: bool
    assume_static_by_default: bool
    automatic_dynamic_shapes: bool
    automatic_dynamic_local_pgo: bool
    automatic_dynamic_exclusion_guard: bool
    automatic_dynamic_shapes_mark_as: Literal["dynamic", "unbacked"]
    capture_scalar_outputs: bool
    capture_dynamic_output_shape_ops: bool
    allow_ignore_mark_dynamic: bool
    suppress_errors: bool
    strict: bool
    verbose: bool
    verbose_errors: bool
    verify_guards: bool
    verify_correctness: bool
    error_on_nested_fx_trace: bool
    force_compile_during_fx_trace: bool
    error_on_nested_jit_trace: bool
    allow_rnn: bool
    error_on_dynamo_callback_in_fullgraph_compiled_code: bool
    install_free_tensors: bool
    ignore_logging_functions: set[Callable[..., object]]
    ignore_logger_methods: set[Callable[..., object]]
    reorderable_logging_functions: set[Callable[..., object]]
    repro_after: Any
    repro_level: Any
    repro_forward_only: Any
    repro_tolerance: Any
    repro_ignore_non_fp: Any
    same_two_models_use_fp64: Any
    use_lazy_graph_module: Any
    log_file_name: Any
    fake_tensor_cache_enabled: Any
    fake_tensor_cache_crosscheck_enabled: Any
    log_compilation_metrics: Any
    debug_dir_root: Any
    cudagraph_backend_keep_input_mutation: Any
    cudagraph_backend_support_input_mutation: Any
    raise_on_unsafe_aot_autograd: Any
    pt2_compile_id_prefix: Any
    leaf_function_validate_outputs: Any
    leaf_function_check_escaped_gradients: Any

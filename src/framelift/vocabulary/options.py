"""The table behind `framelift.config`: one row per option."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

__all__ = ["OPTIONS", "Option"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option.  Its environment variable is FRAMELIFT_<NAME>; `torch_variable` is the one that torch.compile
    reads."""

    default: Any
    meaning: str
    alias: str = ""  # another option's name: this one is the same option
    ignored: bool = False  # accepted for programs that set it, without an effect
    torch_variable: str = ""

    def accepts(self, value: Any) -> bool:
        """Whether the value's type fits.  A bool is no number; an int is a float.  What is ignored is not checked."""
        return self.ignored or type(value) is type(self.default) or type(self.default) is float and type(value) is int

    def fresh(self) -> Any:
        """The default; containers are copied."""
        return copy.copy(self.default)


OPTIONS: dict[str, Option] = {
    # -- what is captured, and how often
    "disable": Option(False, "compiled callables run eagerly", torch_variable="TORCH_COMPILE_DISABLE"),
    "recompile_limit": Option(
        8, "compiled variants per cause (and instance); further ones run eagerly, with a warning"
    ),
    "cache_size_limit": Option(8, "the older name of recompile_limit", alias="recompile_limit"),
    "fail_on_recompile_limit_hit": Option(False, "reaching recompile_limit is an error (FailOnRecompileLimitHit)"),
    "fail_on_cache_limit_hit": Option(
        False, "the older name of fail_on_recompile_limit_hit", alias="fail_on_recompile_limit_hit"
    ),
    "error_on_recompile": Option(False, "recompiling a function is an error (RecompileError)"),
    "large_container": Option(4096, "a container with more entries than this breaks the graph instead of being copied"),
    # -- compiling
    "repeated_layers": Option(
        "auto",
        (
            'equal layers in a row are compiled once by Inductor: "auto" (three and more; not in training on GPUs), '
            '"always" (two and more), "off"'
        ),
    ),
    "background": Option(
        "off",
        (
            'graphs run uncompiled while another process compiles them: "on", "off"; "manual": until they are '
            "waited for (for tests)"
        ),
    ),
    # -- captures kept on disk
    "cache": Option(
        False,
        "captures are kept on disk and loaded by later processes, which then rehearse nothing",
        torch_variable="TORCH_CACHING_PRECOMPILE",
    ),
    "caching_precompile": Option(False, "torch.compile's name of cache", alias="cache"),
    "strict_precompile": Option(
        False, "a capture that cannot be kept on disk is an error", torch_variable="TORCH_STRICT_PRECOMPILE"
    ),
    "cache_dir": Option("", "the folder of kept captures; by default framelift in the user's cache folder"),
    "record_captures": Option(False, "captures are recorded as data, so that save_package can write them"),
    "enable_aot_compile": Option(True, "functions and modules can be compiled ahead of time"),
    "cache_size": Option(1024, "so many megabytes of captures are kept; those not used for longest go first"),
    # -- numbers and shapes
    "specialize_int": Option(False, "integer arguments are always constants of the graph"),
    "specialize_float": Option(False, "float arguments are always constants of the graph"),
    "assume_static_by_default": Option(True, "sizes are constants until they change"),
    "automatic_dynamic_shapes": Option(True, "a size that changed is symbolic in the next capture"),
    "capture_scalar_outputs": Option(False, "Tensor.item() becomes an unbacked symbol instead of a graph break"),
    "capture_dynamic_output_shape_ops": Option(
        False, "operations whose result's size depends on values are captured with unbacked symbols"
    ),
    "allow_unspec_int_on_nn_module": Option(False, "integer attributes of modules may become symbolic"),
    "allow_ignore_mark_dynamic": Option(False, "a dimension marked dynamic may be specialized"),
    "force_parameter_static_shapes": Option(True, "sizes of parameters are constants"),
    "force_nn_module_property_static_shapes": Option(True, "sizes of tensors kept in modules are constants"),
    # -- errors
    "suppress_errors": Option(
        False,
        "a failure of the backend or of framelift is a warning, and the frame runs eagerly",
        torch_variable="TORCHDYNAMO_SUPPRESS_ERRORS",
    ),
    "strict": Option(False, "a defect of framelift is an error instead of a warning and an eager run (for tests)"),
    "verbose": Option(False, "longer messages, with framelift's own frames", torch_variable="TORCHDYNAMO_VERBOSE"),
    "verbose_errors": Option(False, "keep framelift's own frames in the tracebacks of errors"),
    "verify_guards": Option(
        False, "run the plain Python meaning of every guard beside the native one and compare (for tests)"
    ),
    "verify_correctness": Option(
        False, "compare each graph's first result with the graph run by the eager backend; a difference is an error"
    ),
    "error_on_nested_fx_trace": Option(
        True, "calling a compiled function while FX traces symbolically is an error; else it is traced through"
    ),
    "error_on_nested_jit_trace": Option(
        True, "calling a compiled function while torch.jit traces is an error; else it is traced through"
    ),
    "force_compile_during_fx_trace": Option(False, "a compiled function called under make_fx is captured all the same"),
    "allow_rnn": Option(
        False, "recurrent networks over more than a few steps are captured also for compilers that write out every step"
    ),
    # -- logging in captured code
    "ignore_logging_functions": Option(set(), "functions whose calls are dropped from captured code"),
    "ignore_logger_methods": Option(
        set(), "the older name of ignore_logging_functions", alias="ignore_logging_functions"
    ),
    "reorderable_logging_functions": Option(
        set(), "functions that are called when the graph has run, in their order, instead of breaking it"
    ),
    # -- accepted, without a mechanism to steer
    **{
        name: Option(default, "steers a mechanism of TorchDynamo", ignored=True)
        for name, default in (
            ("accumulated_recompile_limit", 256),
            ("accumulated_cache_size_limit", 256),
            ("skip_code_recursive_on_recompile_limit_hit", False),
            ("skip_code_recursive_on_cache_limit_hit", False),
            ("dynamic_shapes", True),
            ("dead_code_elimination", None),
            ("minimum_call_count", 1),
            ("use_lazy_graph_module", True),
            ("log_file_name", None),
            ("guard_nn_modules", True),
            ("guard_nn_modules_using_dict_tags", True),
            ("prepare_freezing", False),
            ("traceable_tensor_subclasses", frozenset()),
            ("nontraceable_tensor_subclasses", frozenset()),
            ("replay_record_enabled", False),
            ("replay_side_effects", True),
            ("side_effect_replay_policy", "info"),
            ("generate_pycode", False),
            ("rewrite_assert_with_torch_assert", True),
            ("cprofile", False),
            ("dynamo_profiler", False),
            ("skipfiles_inline_module_allowlist", None),
            ("allowed_functions_module_string_ignorelist", None),
            ("repro_after", None),
            ("repro_level", 2),
            ("repro_forward_only", False),
            ("repro_tolerance", 1e-3),
            ("repro_ignore_non_fp", False),
            ("same_two_models_use_fp64", True),
            ("prefer_deferred_runtime_asserts_over_guards", False),
            ("allow_complex_guards_as_runtime_asserts", False),
            ("force_unspec_int_unbacked_size_like_on_torchrec_kjt", False),
            ("optimize_ddp", True),
            ("optimize_ddp_lazy_compile", False),
            ("do_not_emit_runtime_asserts", False),
            ("skip_torchrec", True),
            ("dont_skip_tracing", False),
            ("use_lamba_guard_for_object_aliasing", True),
            ("skip_fsdp_guards", True),
            ("skip_fsdp_hooks", True),
            ("skip_nnmodule_hook_guards", True),
            ("skip_no_tensor_aliasing_guards_on_parameters", True),
            ("skip_tensor_guards_with_matching_dict_tags", True),
            ("skip_guards_on_constant_func_defaults", False),
            ("assume_dunder_attributes_remain_unchanged", True),
            ("use_recursive_dict_tags_for_guards", False),
            ("max_saved_pointers_for_recursive_dict_tags_check", 256),
            ("raise_on_ctx_manager_usage", True),
            ("raise_on_unsafe_aot_autograd", False),
            ("capture_sparse_compute", True),
            ("report_guard_failures", True),
            ("trace_numpy", True),
            ("trace_autograd_ops", False),
            ("numpy_default_float", "float64"),
            ("numpy_default_complex", "complex128"),
            ("numpy_default_int", "int64"),
            ("use_numpy_random_stream", False),
            ("enable_cpp_guard_manager", True),
            ("enable_cpp_symbolic_shape_guards", False),
            ("enable_cpp_framelocals_guard_eval", True),
            ("enable_trace_contextlib", True),
            ("enable_trace_unittest", False),
            ("enable_trace_load_build_class", False),
            ("enable_faithful_generator_behavior", True),
            ("inline_inbuilt_nn_modules", True),
            ("nested_graph_breaks", False),
            ("install_free_tensors", False),
            ("install_free_tensors_for_export", True),
            ("use_graph_deduplication", False),
            ("track_nodes_for_deduplication", False),
            ("graph_deduplication_lint", False),
            ("allow_empty_graphs", False),
            ("debug_force_nested_calls", False),
            ("debug_force_graph_break_on_leaf_return", False),
            ("debug_disable_compile_counter", False),
            ("record_compile_time_instruction_count", False),
            ("debug_dir_root", ""),
            ("cudagraph_backend_keep_input_mutation", False),
            ("cudagraph_backend_support_input_mutation", False),
            ("only_allow_pt2_compliant_ops", False),
            ("capture_autograd_function", True),
            ("capture_func_transforms", True),
            ("capture_profiler_record_function", False),
            ("log_compilation_metrics", True),
            ("inject_BUILD_SET_unimplemented_TESTING_ONLY", False),
            ("fake_tensor_cache_enabled", True),
            ("fake_tensor_cache_crosscheck_enabled", False),
            ("fake_tensor_disable_inference_mode", True),
            ("compiled_autograd", False),
            ("compiled_autograd_kwargs_override", None),
            ("enable_dynamo_decompositions", True),
            ("graph_break_on_nn_param_ctor", True),
            ("enable_compiler_collectives", False),
            ("automatic_dynamic_local_pgo", True),
            ("automatic_dynamic_remote_pgo", None),
            ("run_gc_after_compile", False),
            ("constant_fold_autograd_profiler_enabled", False),
            ("wrap_top_frame", False),
            ("record_runtime_overhead", True),
            ("inline_invoke_subgraph", False),
            ("inline_single_use_invoke_subgraph", True),
            ("log_graph_in_out_metadata", False),
            ("automatic_dynamic_shapes_mark_as", "dynamic"),
            ("base_dir", ""),
        )
    },
}

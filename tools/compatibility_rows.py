"""One row for each name of torch.compile's surface: options, environment variables, functions.

docs/compatibility.md is made of these (compatibility.py).  What has no effect, or is refused, is known to the product
itself (`framelift.surface.compatibility`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from framelift.surface.compatibility import REFUSED, WITHOUT_EFFECT
from framelift.vocabulary.options import OPTIONS

_SWITCHES = "surface/test_torch_switches.py::"
_RECORDS = "surface/test_torch_records.py::"
_SURFACE = "surface/test_surface.py::"
_OWN = "surface/test_compatibility.py::"
_CACHES = "packages/test_torch_names.py::test_the_off_switch_and_the_tag"
_BUNDLE = "cache/test_artifacts.py::test_a_bundle_carries_captures_to_another_folder"

_STEERING, _FRAMES = "surface/test_steering.py::", "surface/test_frame_settings.py::"
_TOOLS = "surface/test_for_tools.py::"
_ONE_NODE, _MARKED = "surface/test_one_node_functions.py::", "surface/test_marked_sizes.py::"
_FUNCTIONS = "surface/test_torch_functions.py::"
_PRECOMPILE = f"{_FUNCTIONS}test_torch_precompiles_what_is_compiled"
#: the test that shows a redirected function, by its last name
_REDIRECTED: dict[str, str] = {
    name: test
    for test, names in {
        f"{_FUNCTIONS}test_compile_and_reset": "compile reset reset_code reset_code_caches OptimizedModule",
        f"{_FUNCTIONS}test_one_node_and_no_node": "allow_in_graph assume_constant_result disable",
        f"{_FUNCTIONS}test_substitutes": "substitute_in_graph",
        f"{_FUNCTIONS}test_forbidden_and_disallowed": "disallow_in_graph forbid_in_graph",
        f"{_FUNCTIONS}test_breaks_that_are_asked_for": "graph_break skip_frame step_unsupported error_on_graph_break",
        f"{_FUNCTIONS}test_frames_that_are_left_out": "skip is_dynamo_disable_recursive dont_skip_tracing",
        f"{_FUNCTIONS}test_run_alone_uses_what_there_is": "run",
        f"{_FUNCTIONS}test_stances": "set_stance",
        f"{_FUNCTIONS}test_sizes_that_are_marked": "mark_dynamic maybe_mark_dynamic mark_static mark_static_address "
        "mark_unbacked",
        f"{_FUNCTIONS}test_a_function_that_only_aotautograd_looks_into": "nonstrict_trace",
        f"{_FUNCTIONS}test_backends_by_name": "register_backend list_backends lookup_backend set_default_backend "
        "get_default_backend",
        f"{_FUNCTIONS}test_what_optimize_and_explain_give": "optimize optimize_assert explain export",
        f"{_FUNCTIONS}test_who_hears_of_a_compile": "on_compile_start on_compile_end",
        "packages/test_aot.py::test_the_drop_in": "load_compiled_function",
    }.items()
    for name in names.split()
}

#: option -> the test that shows that it works
SHOWN_BY: dict[str, str] = {
    "compiled_autograd": "surface/test_backward_capture.py::test_backward_passes_have_graphs",
    "automatic_dynamic_local_pgo": f"{_TOOLS}test_sizes_that_earlier_processes_saw",
    "inline_single_use_invoke_subgraph": f"{_TOOLS}test_equal_regions_are_one_subgraph",
    "inline_invoke_subgraph": f"{_TOOLS}test_equal_regions_are_one_subgraph",
    "use_graph_deduplication": f"{_TOOLS}test_equal_operations_are_one_subgraph",
    "automatic_dynamic_shapes_mark_as": f"{_TOOLS}test_sizes_that_change_may_be_unbacked",
    "automatic_dynamic_exclusion_guard": f"{_TOOLS}test_fixed_sizes_keep_their_capture",
    "install_free_tensors": f"{_STEERING}test_free_tensors_are_attributes",
    "error_on_dynamo_callback_in_fullgraph_compiled_code": f"{_STEERING}test_nothing_is_compiled_inside_compiled_code",
    "record_compile_time_instruction_count": f"{_FRAMES}test_instructions_are_counted",
    "side_effect_replay_policy": f"{_FRAMES}test_side_effects_may_be_errors",
    "debug_inductor_config_override": f"{_FRAMES}test_options_of_inductor_by_compile_id",
    "debug_dynamo_config_override": f"{_FRAMES}test_options_by_compile_id",
    "accumulated_recompile_limit": f"{_OWN}test_variants_of_one_frame_in_all",
    "cache": "cache/test_kept.py::test_the_cache_is_off",
    "debug_backend_override": f"{_RECORDS}test_another_backend_by_compile_id",
    "enable_aot_compile": "packages/test_aot.py::test_what_is_needed",
    "error_on_recompile": "graph/test_shapes.py::test_error_on_recompile",
    "fail_on_recompile_limit_hit": f"{_SWITCHES}test_settings_that_exclude_each_other",
    "prepare_freezing": f"{_SWITCHES}test_parameters_in_the_graph",
    "recompile_limit": f"{_SWITCHES}test_settings_made_before",
    "optimize_ddp": "backends/test_gradient_buckets.py::test_parts_by_bucket",
    "raise_on_ctx_manager_usage": f"{_SWITCHES}test_optimize_as_a_block",
    "run_gc_after_compile": f"{_SWITCHES}test_collecting_after_each_compile",
    "strict_precompile": "packages/test_torch_names.py::test_reasons_are_counted_and_may_be_errors",
    "allow_ignore_mark_dynamic": f"{_OWN}test_marked_sizes_may_become_constants",
    "allow_rnn": f"{_OWN}test_recurrent_networks",
    "assume_static_by_default": f"{_OWN}test_what_is_symbolic",
    "automatic_dynamic_shapes": f"{_OWN}test_what_is_symbolic",
    "capture_dynamic_output_shape_ops": "graph/test_shapes_unbacked.py::test_a_condition_that_does_not_hold_raises",
    "capture_scalar_outputs": "graph/test_shapes_unbacked.py::test_a_condition_that_does_not_hold_raises",
    "cprofile": f"{_OWN}test_profiles",
    "disable": f"{_OWN}test_variables_set_options",
    "dynamo_profiler": f"{_OWN}test_profiles",
    "error_on_nested_fx_trace": f"{_SURFACE}test_a_compiled_function_passes_for_a_function",
    "force_compile_during_fx_trace": "surface/test_fx_tracing.py::test_graphs_in_a_trace",
    "error_on_nested_jit_trace": f"{_OWN}test_under_jit_tracing",
    "ignore_logging_functions": f"{_SURFACE}test_logging_that_waits_for_the_graph",
    "reorderable_logging_functions": f"{_SURFACE}test_logging_that_waits_for_the_graph",
    "specialize_float": f"{_OWN}test_what_is_symbolic",
    "specialize_int": f"{_OWN}test_what_is_symbolic",
    "suppress_errors": f"{_SURFACE}test_suppressed_errors_run_plainly",
    "verify_correctness": f"{_SURFACE}test_verify_correctness_compares_the_graph",
    "verbose": "surface/test_torch_exceptions.py::test_verbose_keeps_all_frames",
}

ENVIRONMENT: dict[str, tuple[str, str, str]] = {
    "FX_GRAPH_SHOW_DEVICE": ("torch", "read by torch.fx", ""),
    "MAST_HPC_JOB_NAME": ("torch", "read by torch's logs", ""),
    "PT2_COMPILE_ID_PREFIX": ("torch", "read by torch's compile ids", ""),
    "PYTORCH_KEEP_TMPDIR": ("torch", "read by torch's own tests", ""),
    "TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCHDYNAMO_DEBUG_FUNCTION": ("works", "", f"{_OWN}test_one_function_alone"),
    "TORCHDYNAMO_DISABLE": ("works", "", f"{_SURFACE}test_the_kill_switch_of_the_environment"),
    "TORCHDYNAMO_EXTENDED_DEBUG_CPP": ("torch", "read by torch's symbolic shapes", ""),
    "TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL": ("torch", "read by torch's symbolic shapes", ""),
    "TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED": ("torch", "read by torch's symbolic shapes", ""),
    "TORCHDYNAMO_PREPARE_FREEZING": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCHDYNAMO_REPRO_AFTER": (
        "torch",
        "read by torch's minifier, which framelift calls; without it framelift writes a repro file",
        "",
    ),
    "TORCHDYNAMO_REPRO_FORWARD_ONLY": ("torch", "read by torch's minifier", ""),
    "TORCHDYNAMO_REPRO_IGNORE_NON_FP": ("torch", "read by torch's minifier", ""),
    "TORCHDYNAMO_REPRO_LEVEL": ("torch", "read by torch's minifier", ""),
    "TORCHDYNAMO_SUPPRESS_ERRORS": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCHDYNAMO_VERBOSE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCHEXPORT_EXTENDED_DEBUG_CURRENT_LOC": ("torch", "read by torch's symbolic shapes", ""),
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": ("torch", "read by Inductor", ""),
    "TORCHINDUCTOR_WINDOWS_TESTS": ("torch", "read by torch's own tests", ""),
    "TORCH_CACHING_PRECOMPILE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_COMPILE_CACHE_KEY_TAG": ("works", "", _CACHES),
    "TORCH_COMPILE_CPROFILE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_COMPILE_DEBUG": ("works", "", f"{_SWITCHES}test_files_for_debugging"),
    "TORCH_COMPILE_DEBUG_DIR": ("works", "", f"{_SWITCHES}test_files_for_debugging"),
    "TORCH_COMPILE_DISABLE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_COMPILE_DYNAMIC_SOURCES": ("works", "", f"{_SWITCHES}test_dynamic_from_the_first_call"),
    "TORCH_COMPILE_DYNAMIC_VALUES": ("works", "", f"{_SWITCHES}test_dynamic_from_the_first_call"),
    "TORCH_COMPILE_FORCE_DISABLE_CACHES": ("works", "", _CACHES),
    "TORCH_COMPILE_JOB_ID": ("works", "", f"{_TOOLS}test_sizes_that_earlier_processes_saw"),
    "TORCH_COMPILE_OVERRIDE_BACKENDS": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_COMPILE_OVERRIDE_DYNAMO_CONFIGS": ("works", "", "surface/test_compatibility.py::test_variables_set_options"),
    "TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS": (
        "works",
        "",
        "surface/test_compatibility.py::test_variables_set_options",
    ),
    "TORCH_COMPILE_ON_ONE_RANK": ("torch", "read by make_fx, Inductor and torch.distributed", ""),
    "TORCH_COMPILE_STATIC_SOURCES": ("works", "", f"{_SWITCHES}test_static_sources_win"),
    "TORCH_COMPILE_UNBACKED_SOURCES": ("works", "", f"{_SWITCHES}test_dynamic_from_the_first_call"),
    "TORCH_COMPILE_USE_LAZY_GRAPH_MODULE": ("torch", "read by torch.fx", ""),
    "TORCH_CUDAGRAPH_GC": ("torch", "read by Inductor", ""),
    "TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK": ("torch", "read by make_fx, Inductor and torch.distributed", ""),
    "TORCH_DTRACE": ("torch", "read by torch's logs", ""),
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": ("works", "", f"{_TOOLS}test_sizes_that_earlier_processes_saw"),
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_DYNAMO_RUN_GC_AFTER_COMPILE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_ENRICH_RPOFILER_STACK_TRACE": ("torch", "read by torch.fx", ""),
    "TORCH_FAKE_TENSOR_DISPATCH_CACHE": ("torch", "read by torch's fake tensors", ""),
    "TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK": ("torch", "read by torch's fake tensors", ""),
    "TORCH_LOGS": ("works", "", f"{_RECORDS}test_logs"),
    "TORCH_LOGS_FORMAT": ("torch", "read by torch's logs", ""),
    "TORCH_LOGS_OUT": ("torch", "read by torch's logs", ""),
    "TORCH_LOGS_TRACE_ID_FILTER": ("torch", "read by torch's logs", ""),
    "TORCH_STRICT_PRECOMPILE": ("works", "", f"{_OWN}test_variables_set_options"),
    "TORCH_TRACE": ("works", "", "report/test_repro.py::test_structured_trace"),
    "TVM_SCHEDULER": ("torch", "read by the backend tvm", ""),
}

FUNCTIONS: dict[str, tuple[str, str, str]] = {
    **{
        f"torch.compiler.{name}": ("works", "redirected", _REDIRECTED[name])
        for name in (
            "allow_in_graph assume_constant_result compile disable get_default_backend list_backends "
            "load_compiled_function nonstrict_trace reset set_default_backend set_stance substitute_in_graph"
        ).split()
    },
    **{
        f"torch.compiler.{name}": ("works", "", f"{_SWITCHES}test_ready_made_guard_filters")
        for name in (
            "keep_portable_guards_unsafe keep_tensor_guards_unsafe skip_all_guards_unsafe "
            "skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe"
        ).split()
    },
    "torch.compiler.config": (
        "works",
        "dynamic_sources, unbacked_sources, static_sources, dynamic_values and the aliases are followed",
        f"{_SWITCHES}test_dynamic_from_the_first_call",
    ),
    "torch.compiler.cudagraph_mark_step_begin": ("torch", "Inductor's", ""),
    "torch.compiler.cudagraph_mark_warmup_incomplete": (
        "torch",
        "Inductor's",
        f"{_FUNCTIONS}test_another_warmup_of_cuda_graphs_may_be_asked_for",
    ),
    "torch.compiler.PrecompileError": ("torch", "what torch.compiler.precompile raises", _PRECOMPILE),
    "torch.compiler.precompile": (
        "torch",
        "it traces by make_fx, not by TorchDynamo; framelift has packages and aot_compile",
        _PRECOMPILE,
    ),
    "torch.compiler.is_compiling": ("works", "", f"{_RECORDS}test_compile_ids_for_backends_and_callbacks"),
    "torch.compiler.is_dynamo_compiling": ("works", "", f"{_RECORDS}test_compile_ids_for_backends_and_callbacks"),
    "torch.compiler.is_exporting": ("works", "", f"{_OWN}test_functions_that_are_not_redirected"),
    "torch.compiler.load_cache_artifacts": ("works", "torch's own; with captures", _BUNDLE),
    "torch.compiler.nested_compile_region": (
        "works",
        "equal regions share one subgraph; written out where Inductor trains",
        f"{_TOOLS}test_equal_regions_are_one_subgraph",
    ),
    "torch.compiler.save_cache_artifacts": ("works", "torch's own; with captures", _BUNDLE),
    "torch.compiler.set_enable_guard_collectives": (
        "works",
        "redirected",
        "surface/test_guard_collectives.py::test_all_ranks_compile_where_one_has_to",
    ),
    "torch.compiler.wrap_numpy": ("works", "", f"{_ONE_NODE}test_numpy_functions_of_tensors_with_gradients"),
    **{
        f"torch._dynamo.{name}": ("works", "redirected", _REDIRECTED[name])
        for name in (
            "OptimizedModule allow_in_graph assume_constant_result disable disallow_in_graph dont_skip_tracing "
            "error_on_graph_break explain export forbid_in_graph graph_break is_dynamo_disable_recursive list_backends "
            "lookup_backend mark_dynamic mark_static mark_static_address maybe_mark_dynamic mark_unbacked "
            "nonstrict_trace on_compile_end on_compile_start optimize optimize_assert register_backend reset "
            "reset_code reset_code_caches run set_stance skip skip_frame step_unsupported substitute_in_graph"
        ).split()
    },
    "torch._dynamo.allow_c_slot": ("works", "", f"{_STEERING}test_c_types_whose_slots_are_safe"),
    "torch._dynamo.bytecode_debugger": ("nothing", "no bytecode is generated; framelift shows the entry as Python", ""),
    "torch._dynamo.config": ("works", "each option has a row of its own", f"{_SWITCHES}test_settings_made_before"),
    "torch._dynamo.disable_nested_graph_breaks": (
        "works",
        "",
        f"{_SWITCHES}test_contexts_that_change_nothing_are_captured",
    ),
    "torch._dynamo.get_recursion_limit": ("nothing", "CPython runs the program, within its own limit", ""),
    "torch._dynamo.is_compiling": ("works", "", f"{_OWN}test_functions_that_are_not_redirected"),
    "torch._dynamo.is_dynamo_supported": ("torch", "", ""),
    "torch._dynamo.is_inductor_supported": ("torch", "", ""),
    "torch._dynamo.leaf_function": ("works", "", f"{_ONE_NODE}test_modules_given_to_leaf_functions"),
    "torch._dynamo.override_cudagraphs": (
        "works",
        "",
        "surface/test_backend_metadata.py::test_what_is_said_of_cuda_graphs",
    ),
    "torch._dynamo.override_optimization_hint": ("works", "", f"{_MARKED}test_sizes_to_tune_for"),
    "torch._dynamo.patch_dynamo_config": (
        "works",
        "capture_scalar_outputs and verbose act in captured code",
        f"{_FUNCTIONS}test_settings_in_captured_code",
    ),
    "torch._dynamo.register_hook_for_recompile_user_context": ("works", "", f"{_RECORDS}test_times_and_metrics"),
    "torch._dynamo.reset_frame_count": ("nothing", "framelift counts captures", ""),
    "torch._dynamo.reset_recompile_user_contexts": ("works", "", f"{_RECORDS}test_times_and_metrics"),
    "torch._dynamo.set_recursion_limit": ("nothing", "CPython runs the program, within its own limit", ""),
}


class Verdict(enum.Enum):
    """The outcome for a program that uses a name."""

    WORKS = "works"  # as with TorchDynamo; `test` shows it
    TORCH = "torch"  # torch's own code does it, which framelift uses
    WARNS = "warns"  # it has no effect, and a warning says why, once
    REFUSED = "refused"  # an error says why
    NOTHING = "nothing"  # there is nothing that it would have to do here


@dataclass(frozen=True, slots=True)
class TorchName:
    """One name."""

    name: str
    verdict: Verdict
    note: str = ""
    test: str = ""  # below tests/


def option_rows() -> dict[str, TorchName]:
    """The options of torch._dynamo.config."""
    rows = {}
    for name, option in OPTIONS.items():
        if option.ignored:
            rows[name] = TorchName(name, Verdict.WARNS, option.ignored)
        elif option.by_torch:
            rows[name] = TorchName(name, Verdict.TORCH, option.meaning)
        else:
            rows[name] = TorchName(name, Verdict.WORKS, option.meaning, SHOWN_BY.get(option.alias or name, ""))
    return rows


def _rows(table: Mapping[str, tuple[str, str, str]]) -> dict[str, TorchName]:
    return {name: TorchName(name, Verdict(verdict), note, test) for name, (verdict, note, test) in table.items()}


def _without(verdict: Verdict, table: Mapping[str, str]) -> dict[str, TorchName]:
    return {name: TorchName(name, verdict, why) for name, why in table.items()}


def environment_rows() -> dict[str, TorchName]:
    """The environment variables that TorchDynamo and its surroundings read."""
    return _rows(ENVIRONMENT) | _without(Verdict.WARNS, WITHOUT_EFFECT)


def function_rows() -> dict[str, TorchName]:
    """The public functions of torch.compiler and torch._dynamo, by their full names."""
    return _rows(FUNCTIONS) | _without(Verdict.REFUSED, REFUSED)

"""The table behind `framelift.config`: one row per option."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from .options_without_effect import WITHOUT_EFFECT

_FALSE, _TRUE = ("", "0", "false", "no", "off"), ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.  Its variable is FRAMELIFT_<NAME>; `torch_variable` is the one of torch.compile."""

    default: Any
    meaning: str
    alias: str = ""  # another option's name: this one is the same option
    ignored: str = ""  # accepted for programs that set it, without an effect; why: a warning says so, once
    also: tuple[type, ...] = ()  # types of values that it takes beside the default's
    by_torch: bool = False  # framelift does not read it: torch's own code does, in torch._dynamo.config
    torch_variable: str = ""
    choices: tuple[str, ...] = ()  # the texts that it takes

    def accepts(self, value: Any) -> bool:
        """Return whether the value's type fits.  A bool is no number; an int is a float.  What is ignored is not
        checked.
        """
        return (
            bool(self.ignored)
            or self.by_torch
            or type(value) in (type(self.default), *self.also)
            and (type(value) is not str or not self.choices or value in self.choices)
            or type(self.default) is float
            and type(value) is int
        )

    @property
    def takes(self) -> str:
        """What it takes, in words.

        >>> OPTIONS["cache"].takes, OPTIONS["cache_size"].takes
        ("'auto' or bool", 'int')
        """
        own = " or ".join(map(repr, self.choices)) if self.choices else type(self.default).__name__
        return " or ".join((own, *(kind.__name__ for kind in self.also)))

    def from_text(self, text: str, lenient: bool) -> Any:
        """The value that an environment variable gives; ValueError where there is none of a type that it takes.  Of
        torch's variables any text but a no is a yes.
        """
        kinds = (type(self.default), *self.also)
        if bool in kinds and text.lower() in _FALSE + _TRUE:
            return text.lower() in _TRUE
        kind = next((kind for kind in kinds if kind in (int, float, str)), None)
        if kind is None and not (lenient and bool in kinds):
            raise ValueError  # caught in config.py
        value = True if kind is None else kind(text)
        if not self.accepts(value):
            raise ValueError  # caught in config.py
        return value

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
    "accumulated_recompile_limit": Option(256, "compiled variants of one frame in all"),
    "accumulated_cache_size_limit": Option(
        256, "the older name of accumulated_recompile_limit", alias="accumulated_recompile_limit"
    ),
    "debug_backend_override": Option(
        "",
        'backends by compile id, to find the graph that fails: "0:eager;>3:aot_eager"',
        torch_variable="TORCH_COMPILE_OVERRIDE_BACKENDS",
    ),
    "debug_dynamo_config_override": Option(
        "",
        'options by compile id: "0:specialize_int=True;>3:verify_correctness=True"',
        torch_variable="TORCH_COMPILE_OVERRIDE_DYNAMO_CONFIGS",
    ),
    "debug_inductor_config_override": Option(
        "",
        'options of Inductor by compile id: "0-5:max_autotune=True"',
        torch_variable="TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS",
    ),
    "side_effect_replay_policy": Option(
        "info",
        'what is said of changes to objects of the program: "silent", "info" (a log), "warn", "error"',
        choices=("silent", "info", "warn", "error"),
    ),
    "record_compile_time_instruction_count": Option(
        False, "count the processor's instructions of each capture (torch._dynamo.utils.CompileTimeInstructionCounter)"
    ),
    "compiled_autograd": Option(
        False, "backward passes that run inside of compiled calls are captured by torch's compiled autograd"
    ),
    "optimize_ddp": Option(
        True,
        "graphs of fixed sizes in DistributedDataParallel are compiled in parts, one for each bucket of gradients",
        also=(str,),
    ),
    "raise_on_ctx_manager_usage": Option(
        True, "torch._dynamo.optimize(...) is no context manager; else frames that begin within its block are captured"
    ),
    "run_gc_after_compile": Option(
        False, "collect young garbage after each capture", torch_variable="TORCH_DYNAMO_RUN_GC_AFTER_COMPILE"
    ),
    "prepare_freezing": Option(
        False,
        "without grad mode, parameters and buffers are attributes of the graph",
        torch_variable="TORCHDYNAMO_PREPARE_FREEZING",
    ),
    "cprofile": Option(False, "profile each rehearsal", torch_variable="TORCH_COMPILE_CPROFILE"),
    "dynamo_profiler": Option(
        False, "profile each rehearsal by the program's functions; or the folder for the files", also=(str,)
    ),
    "error_on_recompile": Option(False, "recompiling a function is an error (RecompileError)"),
    "large_container": Option(
        4096,
        "a container with more entries than this (with fullgraph=True, 16 times as many) breaks the graph instead of "
        "being copied",
    ),
    # -- compiling
    "repeated_layers": Option(
        "auto",
        'equal layers in a row are compiled once by Inductor: "auto" (three and more), "always" (two and more), "off"',
        choices=("auto", "always", "off"),
    ),
    "second_tier": Option(
        "auto",
        (
            "folded layers are compiled once more behind the program, unfolded, for later processes: "
            '"auto" (where cores are free), "now" (always; calls without gradients use it in this process too), "off"'
        ),
        choices=("auto", "now", "off"),
    ),
    "use_graph_deduplication": Option(
        False, "equal runs of operations in a row are subgraphs that are called several times, for all backends"
    ),
    "inline_invoke_subgraph": Option(False, "calls of subgraphs are written out, for backends that cannot take them"),
    "inline_single_use_invoke_subgraph": Option(True, "a subgraph that is called once is written out"),
    "background": Option(
        "off",
        (
            'graphs run uncompiled while another process compiles them: "on", "off"; "manual": until they are '
            "waited for (for tests)"
        ),
        choices=("on", "off", "manual"),
    ),
    # -- captures kept on disk
    "cache": Option(
        "auto",
        (
            "captures are kept on disk and loaded by later processes, which then rehearse nothing: "
            '"auto" (those that Inductor compiles, which has a disk cache too), True (all), False (none)'
        ),
        also=(bool,),
        torch_variable="TORCH_CACHING_PRECOMPILE",
        choices=("auto",),
    ),
    "caching_precompile": Option(False, "torch.compile's name of cache", alias="cache"),
    "strict_precompile": Option(
        False, "a capture that cannot be kept on disk is an error", torch_variable="TORCH_STRICT_PRECOMPILE"
    ),
    "cache_dir": Option(
        "", "the folder of kept captures; by default framelift in TORCHINDUCTOR_CACHE_DIR or the user's cache folder"
    ),
    "cache_url": Option(
        "", "one file with captures and all that they need, a path or an address for fsspec: read once, written at exit"
    ),
    "cache_key": Option("", "the file with the key of what is kept, instead of the user's own: at least 32 bytes"),
    "record_captures": Option(False, "captures are recorded as data, so that save_package can write them"),
    "enable_aot_compile": Option(True, "functions and modules can be compiled ahead of time"),
    "cache_size": Option(1024, "so many megabytes of captures are kept; those not used for longest go first"),
    # -- numbers and shapes
    "specialize_int": Option(False, "integer arguments are always constants of the graph"),
    "specialize_float": Option(False, "float arguments are always constants of the graph"),
    "assume_static_by_default": Option(True, "sizes are constants until they change"),
    "automatic_dynamic_shapes": Option(
        True,
        "a size that changed is symbolic in the next capture",
        torch_variable="TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES",
    ),
    "automatic_dynamic_local_pgo": Option(
        True,
        "sizes that change are kept for the next process of the job that TORCH_COMPILE_JOB_ID names",
        torch_variable="TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO",
    ),
    "automatic_dynamic_exclusion_guard": Option(
        False, "inputs that a capture for fixed sizes was made for keep using it when there is one for all sizes"
    ),
    "automatic_dynamic_shapes_mark_as": Option(
        "dynamic",
        'sizes that changed are "dynamic", or "unbacked": nothing is known of them, 0 and 1 included',
        choices=("dynamic", "unbacked"),
    ),
    "capture_scalar_outputs": Option(
        False,
        "Tensor.item() becomes an unbacked symbol instead of a graph break",
        torch_variable="TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",
    ),
    "capture_dynamic_output_shape_ops": Option(
        False,
        "operations whose result's size depends on values are captured with unbacked symbols",
        torch_variable="TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",
    ),
    "allow_ignore_mark_dynamic": Option(False, "a dimension marked dynamic may be specialized"),
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
    "force_compile_during_fx_trace": Option(
        False, "a compiled function is captured, compiled and run also while FX traces: its graph is part of the trace"
    ),
    "error_on_nested_jit_trace": Option(
        True, "calling a compiled function while torch.jit traces is an error; else it is traced through"
    ),
    "allow_rnn": Option(
        False, "recurrent networks over more than a few steps are captured also for compilers that write out every step"
    ),
    "error_on_dynamo_callback_in_fullgraph_compiled_code": Option(
        False, "compiling something while a graph of fullgraph=True runs is an error"
    ),
    "install_free_tensors": Option(
        False, "parameters, buffers and tensors that are no arguments are attributes of the graph"
    ),
    # -- logging in captured code
    "ignore_logging_functions": Option(set(), "functions whose calls are dropped from captured code"),
    "ignore_logger_methods": Option(
        set(), "the older name of ignore_logging_functions", alias="ignore_logging_functions"
    ),
    "reorderable_logging_functions": Option(
        set(), "functions that are called when the graph has run, in their order, instead of breaking it"
    ),
    # -- read by torch's own code, which framelift uses: set these in torch._dynamo.config
    **{
        name: Option(default, "read by torch's own code", by_torch=True)
        for name, default in (
            ("repro_after", None),
            ("repro_level", 2),
            ("repro_forward_only", False),
            ("repro_tolerance", 1e-3),
            ("repro_ignore_non_fp", False),
            ("same_two_models_use_fp64", True),
            ("use_lazy_graph_module", True),
            ("log_file_name", None),
            ("fake_tensor_cache_enabled", True),
            ("fake_tensor_cache_crosscheck_enabled", False),
            ("log_compilation_metrics", True),
            ("debug_dir_root", ""),
            ("cudagraph_backend_keep_input_mutation", False),
            ("cudagraph_backend_support_input_mutation", False),
            ("raise_on_unsafe_aot_autograd", False),
            ("pt2_compile_id_prefix", None),
            ("leaf_function_validate_outputs", False),
            ("leaf_function_check_escaped_gradients", False),
        )
    },
    **{
        name: Option(default, "steers a mechanism of TorchDynamo", ignored=why)
        for why, rows in WITHOUT_EFFECT.items()
        for name, default in rows.items()
    },
}

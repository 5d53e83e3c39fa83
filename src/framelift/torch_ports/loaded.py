"""Modules of torch's compilers that are read where something has loaded them, with the names that are read of each."""

from .port import Port, area

_COUNTS = "count in torch's own tables"
_SAY = "say of a capture what TorchDynamo says of its own"

__getattr__ = area(
    globals(),
    "what programs and torch's tools read in TorchDynamo's and Inductor's records",
    Port("dynamo", "torch._dynamo", "run graphs that are loaded", loaded="disable"),
    Port("distributed_tensors", "torch.distributed.tensor", "capture their methods", loaded="DTensor placement_types"),
    Port(
        "functional_collectives",
        "torch.distributed._functional_collectives",
        "capture what they ask",
        loaded="_are_we_tracing _resolve_group_name",
    ),
    Port("dynamo_callback", "torch._dynamo.callback", _SAY, loaded="CallbackArgs CallbackTrigger callback_handler"),
    Port("dynamo_compiled_autograd", "torch._dynamo.compiled_autograd", "reset it", loaded="reset"),
    Port("dynamo_config", "torch._dynamo.config", "run torch's minifier", loaded="repro_after"),
    Port("dynamo_convert_frame", "torch._dynamo.convert_frame", "call hooks on bytecode", loaded="_bytecode_hooks"),
    Port(
        "dynamo_decorators",
        "torch._dynamo.decorators",
        "see that torch disables a function without its callees",
        loaded="_nonrecursive_disable_wrapper_code",
    ),
    Port(
        "dynamo_exc",
        "torch._dynamo.exc",
        "know the errors that torch's compilers raise",
        loaded="SkipFrame TensorifyScalarRestartAnalysis UserError UserErrorType",
    ),
    Port("dynamo_eval_frame", "torch._dynamo.eval_frame", _SAY, loaded="dynamo_tls"),
    Port("dynamo_output_graph", "torch._dynamo.output_graph", _SAY, loaded="GraphCompileReason"),
    Port("dynamo_registry", "torch._dynamo.backends.registry", "find backends by name", loaded="_COMPILER_FNS"),
    Port(
        "dynamo_symbolic_convert",
        "torch._dynamo.symbolic_convert",
        "let compilers specialize floats",
        loaded="TensorifyState",
    ),
    Port("dynamo_counters", "torch._dynamo.utils", _COUNTS, loaded="counters"),
    Port(
        "dynamo_utils",
        "torch._dynamo.utils",
        _COUNTS,
        loaded="CompilationMetrics _compilation_metrics compilation_time_metrics get_chromium_event_logger "
        "get_runtime_metrics_context graph_break_reasons guard_failures",
    ),
    Port("functorch_config", "torch._functorch.config", "compare its settings", loaded="get_hash"),
    Port("inductor_codecache", "torch._inductor.codecache", "keep compiled graphs", loaded="PyCodeCache"),
    Port(
        "inductor_bisector", "torch._inductor.compiler_bisector", "follow torch's bisection", loaded="CompilerBisector"
    ),
    Port(
        "partitioners",
        "torch._functorch.partitioners",
        "save what a backward needs of inputs that are written to",
        loaded="force_save_bw_mutation_src",
    ),
    Port(
        "inductor_config",
        "torch._inductor.config",
        "follow Inductor's settings",
        loaded="force_disable_caches freezing get_hash",
    ),
    Port("inductor_debug", "torch._inductor.debug", "let torch watch the calls of graphs", loaded="DebugContext"),
)

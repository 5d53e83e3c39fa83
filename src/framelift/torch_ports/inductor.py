"""Inductor: its entry points, settings and caches."""

from .port import Port, area, parts

__getattr__ = area(
    globals(),
    "the backend inductor, or its warm start",
    parts("torch._inductor.config", "read and set Inductor's settings", "inductor_config="),
    parts(
        "torch._inductor.compile_fx",
        "compile graphs with Inductor",
        "compile_fx_module= compile_fx compile_fx_inner select_decomp_table",
    ),
    parts("torch._inductor.compile_fx", "read Inductor's settings", "get_patched_config_dict"),
    parts("torch._inductor", "check the name of a mode", "list_mode_options"),
    parts("torch._inductor.async_compile", "load kernels in parallel", "async_compile="),
    parts("torch._inductor.metrics", "load compiled graphs", "metrics="),
    parts("torch._inductor.codecache", "load compiled graphs", "FxGraphCache PyCodeCache"),
    parts("torch._inductor.codegen.cpp", "compile kernels that raise the program's errors", "cpp_module="),
    parts("torch._inductor.cpu_vec_isa", "find the processor's vector instructions without a compiler", "cpu_vec_isa="),
    parts(
        "torch._inductor.codegen.wrapper",
        "compile equal layers once",
        "PythonWrapperCodegen SubgraphPythonWrapperCodegen",
    ),
    parts("torch._inductor.cudagraph_trees", "record CUDA graphs", "cudagraphify_impl", lost="the backend cudagraphs"),
    parts(
        "torch._inductor.cudagraph_trees",
        "let go of CUDA graphs",
        "reset_cudagraph_trees",
        lost="the backend cudagraphs",
    ),
    parts(
        "torch._inductor.cudagraph_utils", "record CUDA graphs", "get_placeholder_info", lost="the backend cudagraphs"
    ),
    parts("torch._inductor.custom_graph_pass", "add its own passes to Inductor's", "custom_graph_pass="),
    parts("torch._inductor.output_code", "load compiled graphs", "CompiledFxGraph CompiledFxGraphConstants"),
    parts("torch._inductor.runtime.runtime_utils", "find Inductor's folder", "cache_dir"),
    parts("torch._inductor.runtime.runtime_utils", "find Triton's folder", "triton_cache_dir"),
    parts("torch._inductor.triton_bundler", "load compiled Triton kernels", "TritonBundler"),
    parts("torch._inductor.utils", "load compiled graphs", "BoxedBool"),
    parts(
        "torch._inductor.utils",
        "record CUDA graphs",
        "count_tangents num_fw_fixed_arguments",
        lost="the backend cudagraphs",
    ),
    parts("torch.utils._triton", "know whether Triton can be used", "triton_tools="),
    parts("torch._inductor.select_algorithm", "run generated code", "extern_kernels"),
    parts("torch._inductor.codegen.memory_planning", "run generated code", "_align"),
    parts("torch._inductor.async_compile", "run generated code", "AsyncCompile"),
    Port(
        "CudagraphAnnotation",
        "torch._inductor:_CudagraphAnnotation",
        "hand the backend what override_cudagraphs says",
        instead=None,
        versions="2.12 and newer",
    ),
)

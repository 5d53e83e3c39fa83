"""Inductor: its entry points, settings and caches."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "the backend inductor, or its warm start",
    Port("inductor_config", "torch._inductor.config", "read and set Inductor's settings"),
    Port("compile_fx_module", "torch._inductor.compile_fx", "compile graphs with Inductor"),
    Port("compile_fx", "torch._inductor.compile_fx:compile_fx", "compile graphs with Inductor"),
    Port("compile_fx_inner", "torch._inductor.compile_fx:compile_fx_inner", "compile graphs with Inductor"),
    Port("get_patched_config_dict", "torch._inductor.compile_fx:get_patched_config_dict", "read Inductor's settings"),
    Port("select_decomp_table", "torch._inductor.compile_fx:select_decomp_table", "compile graphs with Inductor"),
    Port("list_mode_options", "torch._inductor:list_mode_options", "check the name of a mode"),
    Port("async_compile", "torch._inductor.async_compile", "load kernels in parallel"),
    Port("metrics", "torch._inductor.metrics", "load compiled graphs"),
    Port("FxGraphCache", "torch._inductor.codecache:FxGraphCache", "load compiled graphs", instead=A_CLASS),
    Port("PyCodeCache", "torch._inductor.codecache:PyCodeCache", "load compiled graphs", instead=A_CLASS),
    Port("cpp_module", "torch._inductor.codegen.cpp", "compile kernels that raise the program's errors"),
    Port("cpu_vec_isa", "torch._inductor.cpu_vec_isa", "find the processor's vector instructions without a compiler"),
    Port(
        "PythonWrapperCodegen",
        "torch._inductor.codegen.wrapper:PythonWrapperCodegen",
        "compile equal layers once",
        instead=A_CLASS,
    ),
    Port(
        "SubgraphPythonWrapperCodegen",
        "torch._inductor.codegen.wrapper:SubgraphPythonWrapperCodegen",
        "compile equal layers once",
        instead=A_CLASS,
    ),
    Port(
        "cudagraphify_impl",
        "torch._inductor.cudagraph_trees:cudagraphify_impl",
        "record CUDA graphs",
        "the backend cudagraphs",
    ),
    Port(
        "reset_cudagraph_trees",
        "torch._inductor.cudagraph_trees:reset_cudagraph_trees",
        "let go of CUDA graphs",
        "the backend cudagraphs",
    ),
    Port(
        "get_placeholder_info",
        "torch._inductor.cudagraph_utils:get_placeholder_info",
        "record CUDA graphs",
        "the backend cudagraphs",
    ),
    Port("custom_graph_pass", "torch._inductor.custom_graph_pass", "add its own passes to Inductor's"),
    Port("CompiledFxGraph", "torch._inductor.output_code:CompiledFxGraph", "load compiled graphs", instead=A_CLASS),
    Port(
        "CompiledFxGraphConstants",
        "torch._inductor.output_code:CompiledFxGraphConstants",
        "load compiled graphs",
        instead=A_CLASS,
    ),
    Port("cache_dir", "torch._inductor.runtime.runtime_utils:cache_dir", "find Inductor's folder"),
    Port("triton_cache_dir", "torch._inductor.runtime.runtime_utils:triton_cache_dir", "find Triton's folder"),
    Port(
        "TritonBundler", "torch._inductor.triton_bundler:TritonBundler", "load compiled Triton kernels", instead=A_CLASS
    ),
    Port("BoxedBool", "torch._inductor.utils:BoxedBool", "load compiled graphs", instead=A_CLASS),
    Port("count_tangents", "torch._inductor.utils:count_tangents", "record CUDA graphs", "the backend cudagraphs"),
    Port(
        "num_fw_fixed_arguments",
        "torch._inductor.utils:num_fw_fixed_arguments",
        "record CUDA graphs",
        "the backend cudagraphs",
    ),
    Port("triton_tools", "torch.utils._triton", "know whether Triton can be used"),
    Port("extern_kernels", "torch._inductor.select_algorithm:extern_kernels", "run generated code"),
    Port("align", "torch._inductor.codegen.memory_planning:_align", "run generated code"),
    Port("AsyncCompile", "torch._inductor.async_compile:AsyncCompile", "run generated code", instead=A_CLASS),
    Port(
        "CudagraphAnnotation",
        "torch._inductor:_CudagraphAnnotation",
        "hand the backend what override_cudagraphs says",
        instead=None,
        versions="2.12 and newer",
    ),
)

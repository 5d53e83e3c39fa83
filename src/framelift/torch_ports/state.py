"""Settings of torch that change what operations compute."""

from typing import Any

from .port import A_CLASS, Port, area, function_of_c

__getattr__ = area(
    globals(),
    "captures of the code that changes these settings",
    Port(
        "get_deterministic_algorithms",
        "torch._C:_get_deterministic_algorithms",
        "read whether algorithms are deterministic",
    ),
    Port(
        "get_deterministic_algorithms_warn_only",
        "torch._C:_get_deterministic_algorithms_warn_only",
        "read whether algorithms are deterministic",
    ),
    Port(
        "set_deterministic_algorithms",
        "torch._C:_set_deterministic_algorithms",
        "choose deterministic algorithms in graphs",
    ),
    Port("is_any_autocast_enabled", "torch._C:_is_any_autocast_enabled", "read whether autocast is on"),
    Port("enter_autocast", "torch.amp.autocast_mode:_enter_autocast", "switch autocast in graphs"),
    Port("exit_autocast", "torch.amp.autocast_mode:_exit_autocast", "switch autocast in graphs"),
    Port("get_mkldnn_enabled", "torch._C:_get_mkldnn_enabled", "compile recurrent networks without oneDNN"),
    Port("set_mkldnn_enabled", "torch._C:_set_mkldnn_enabled", "compile recurrent networks without oneDNN"),
    Port("get_sdp_priority_order", "torch._C:_get_sdp_priority_order", "read which attention kernels are chosen"),
    Port("set_sdp_priority_order", "torch._C:_set_sdp_priority_order", "choose attention kernels in graphs"),
    Port("get_tracing_state", "torch._C:_get_tracing_state", "leave calls under torch.jit.trace to plain Python"),
    Port(
        "ensure_cuda_device_guard_set",
        "torch._C:_ensureCUDADeviceGuardSet",
        "describe CUDA tensors without using the device",
    ),
    Port("profiler_enabled", "torch.autograd:_profiler_enabled", "answer whether a profiler runs"),
    Port(
        "is_profiler_enabled",
        "torch.autograd.profiler:_is_profiler_enabled",
        "name a call for a profiler",
        variable=True,
    ),
    Port("RecordFunctionFast", "torch._C._profiler:_RecordFunctionFast", "name a call for a profiler", instead=A_CLASS),
)

#: functions of torch._C that read or write one setting each.  A torch that lacks one has no such setting.
SETTINGS = frozenset(
    """
    _cuda_get_cudnn_benchmark_limit _cuda_set_cudnn_benchmark_limit
    _get_cpu_allow_fp16_reduced_precision_reduction _set_cpu_allow_fp16_reduced_precision_reduction
    _get_cublas_allow_bf16_reduced_precision_reduction _set_cublas_allow_bf16_reduced_precision_reduction
    _get_cublas_allow_fp16_accumulation _set_cublas_allow_fp16_accumulation
    _get_cublas_allow_fp16_reduced_precision_reduction _set_cublas_allow_fp16_reduced_precision_reduction
    _get_cublas_allow_tf32 _set_cublas_allow_tf32 _get_cudnn_allow_tf32 _set_cudnn_allow_tf32
    _get_cudnn_benchmark _set_cudnn_benchmark _get_cudnn_depthwise_kernel _set_cudnn_depthwise_kernel
    _get_cudnn_deterministic _set_cudnn_deterministic _get_cudnn_enabled _set_cudnn_enabled
    _get_deterministic_fill_uninitialized_memory _set_deterministic_fill_uninitialized_memory
    _get_float32_matmul_precision _set_float32_matmul_precision _get_fp32_precision_getter
    _get_math_sdp_allow_fp16_bf16_reduction _set_math_sdp_allow_fp16_bf16_reduction
    _get_mkldnn_deterministic _set_mkldnn_deterministic _get_mkldnn_enabled _set_mkldnn_enabled
    _get_cudnn_sdp_enabled _get_flash_sdp_enabled _get_math_sdp_enabled _get_mem_efficient_sdp_enabled
    _get_overrideable_sdp_enabled _set_sdp_use_cudnn _set_sdp_use_flash _set_sdp_use_math _set_sdp_use_mem_efficient
    _set_sdp_use_overrideable _set_default_dtype _set_deterministic_algorithms _set_fp32_precision_setter
    """.split()
)


def setting_function(name: str) -> Any:
    """Return torch._C's function of this name; None where this torch has no such setting."""
    assert name in SETTINGS, name
    return function_of_c(name)


def setting_functions(*names: str) -> tuple[Any, ...]:
    """Return those of torch._C's functions of these names that this torch has."""
    return tuple(filter(None, map(setting_function, names)))


#: what chooses the kernels of attention
KERNEL_SETTERS = setting_functions(*sorted(name for name in SETTINGS if name.startswith("_set_sdp_use_")))

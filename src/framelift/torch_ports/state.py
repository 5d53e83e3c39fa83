"""Settings of torch that change what operations compute."""

from typing import Any

from .port import Port, area, function_of_c, parts

__getattr__ = area(
    globals(),
    "captures of the code that changes these settings",
    parts(
        "torch._C",
        "read whether algorithms are deterministic",
        "_get_deterministic_algorithms _get_deterministic_algorithms_warn_only",
    ),
    parts("torch._C", "choose deterministic algorithms in graphs", "_set_deterministic_algorithms"),
    parts("torch._C", "read whether autocast is on", "_is_any_autocast_enabled"),
    parts("torch.amp.autocast_mode", "switch autocast in graphs", "_enter_autocast _exit_autocast"),
    parts("torch._C", "compile recurrent networks without oneDNN", "_get_mkldnn_enabled _set_mkldnn_enabled"),
    parts("torch._C", "read which attention kernels are chosen", "_get_sdp_priority_order"),
    parts("torch._C", "choose attention kernels in graphs", "_set_sdp_priority_order"),
    parts("torch._C", "leave calls under torch.jit.trace to plain Python", "_get_tracing_state"),
    parts(
        "torch._C",
        "describe CUDA tensors without using the device",
        "ensure_cuda_device_guard_set=_ensureCUDADeviceGuardSet",
    ),
    parts("torch.autograd", "answer whether a profiler runs", "_profiler_enabled"),
    Port(
        "is_profiler_enabled",
        "torch.autograd.profiler:_is_profiler_enabled",
        "name a call for a profiler",
        variable=True,
    ),
    parts("torch._C._profiler", "name a call for a profiler", "_RecordFunctionFast"),
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

"""Which C helpers of torch that are not operations may run natively.  Data only.

They answer with constants of the process, or with settings that are guarded as a whole (`STATE`).  What takes or makes
tensors belongs to the recorder, and what sees torch-function modes would see the recorder's own.
"""

from __future__ import annotations

import torch

from .words import Functions, Kind


def _paths(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names.split())


#: functions declared pure that read a setting of torch: name of the setting -> functions.  Whoever captures a call of
#: one of these guards the setting.
STATE: dict[str, tuple[str, ...]] = {
    "grad mode": _paths("torch._C", "is_grad_enabled is_inference_mode_enabled _is_fwd_grad_enabled"),
    # The old spellings warn about themselves once per process: once in the rehearsal, then no more.
    "autocast": _paths(
        "torch._C",
        "is_autocast_enabled is_autocast_cpu_enabled is_autocast_ipu_enabled is_autocast_xla_enabled "
        "is_autocast_cache_enabled _is_any_autocast_enabled get_autocast_dtype get_autocast_cpu_dtype "
        "get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype",
    ),
    "default dtype": _paths("torch._C", "get_default_dtype"),
    "default device": _paths("torch._C", "_get_default_device"),
    "determinism": _paths(
        "torch._C",
        "_get_deterministic_algorithms _get_deterministic_algorithms_warn_only "
        "_get_deterministic_fill_uninitialized_memory",
    ),
    "precision": _paths(
        "torch._C",
        "_get_float32_matmul_precision _get_fp32_precision_getter _get_cublas_allow_tf32 "
        "_get_cublas_allow_fp16_accumulation _get_cublas_allow_fp16_reduced_precision_reduction "
        "_get_cublas_allow_bf16_reduced_precision_reduction _get_cudnn_allow_tf32 "
        "_get_onednn_allow_tf32 _get_cpu_allow_fp16_reduced_precision_reduction "
        "_get_math_sdp_allow_fp16_bf16_reduction",
    ),
    "kernels": _paths(
        "torch._C",
        "_get_cudnn_enabled _get_cudnn_benchmark _get_cudnn_deterministic _get_mkldnn_enabled "
        "_get_mkldnn_deterministic _get_nnpack_enabled _get_miopen_immediate _get_qengine "
        "_get_flash_sdp_enabled _get_math_sdp_enabled _get_mem_efficient_sdp_enabled "
        "_get_cudnn_sdp_enabled _get_overrideable_sdp_enabled _get_fa3_sdp_enabled "
        "_get_sdp_priority_order _get_cudnn_depthwise_kernel _cuda_get_cudnn_benchmark_limit",
    ),
    "autograd": (
        "torch.autograd._is_checkpoint_valid",
        *_paths(
            "torch._C",
            "is_anomaly_enabled is_anomaly_check_nan_enabled _is_multithreading_enabled _is_view_replay_enabled",
        ),
        *_paths(
            "torch._C._autograd",
            "_saved_tensors_hooks_is_enabled _saved_tensors_hooks_get_disabled_error_message _profiler_enabled",
        ),
    ),
    "tracing": _paths("torch._C", "_get_tracing_state _is_tracing"),
    "functorch": (
        *_paths("torch._C", "_are_functorch_transforms_active"),
        *_paths(
            "torch._C._functorch",
            "peek_interpreter_stack get_dynamic_layer_stack_depth maybe_current_level "
            "get_inplace_requires_grad_allowed "
            "get_single_level_autograd_function_allowed _is_vmap_fallback_enabled",
        ),
    ),
    "threads": _paths("torch._C", "get_num_threads get_num_interop_threads"),
    "warnings": _paths("torch._C", "_get_warnAlways"),
}

#: what the process was built with and runs on
_CONSTANT = (
    "_is_autocast_available _get_privateuse1_backend_name _accelerator_getAccelerator _get_accelerator "
    "_accelerator_hooks_device_count _get_cpu_capability _has_distributed _show_config _is_flash_attention_available "
    "_is_ck_sdpa_available _is_xnnpack_enabled _get_all_dtypes _get_max_operator_version _cuda_getDeviceCount "
    "_cuda_getArchFlags _cuda_getCompiledVersion _cuda_isInBadFork _mps_is_available _mps_is_in_bad_fork "
    "_mps_is_on_macos_or_newer _xpu_getDeviceCount _xpu_isInBadFork _mtia_isBuilt _mtia_isInBadFork"
)

FUNCTIONS: tuple[Functions, ...] = (
    # The two loggers count calls for torch's own statistics, once per place.
    Functions("torch._C", {"pure": f"{_CONSTANT} _log_api_usage_once", "internals": "_log_api_usage_metadata"}),
    # Overridable, so the recorder is asked first; they take dtypes only, and answer the same without it.
    Functions("torch", {"pure": "promote_types can_cast is_vulkan_available"}),
    Functions("torch._C._autograd", {"pure": "kineto_available"}),
    Functions("torch._C._cpu", {"pure": "_get_cpu_capability"}),
    Functions("torch._C._itt", {"pure": "is_available"}),
)

_VALUE = {"pure": "__hash__"}

KINDS: tuple[Kind, ...] = (
    Kind("torch.Size"),
    # As a context manager or a decorator it pushes a mode.
    Kind("torch.device", words=_VALUE | {"mode": "__enter__ __exit__ __call__"}),
    Kind("torch.dtype", make="unknown", words=_VALUE),
    Kind("torch.layout", make="unknown", words=_VALUE),
    Kind("torch.memory_format", make="unknown", words=_VALUE),
    Kind("torch.qscheme", make="unknown", words=_VALUE),
    Kind("torch.finfo"),
    Kind("torch.iinfo"),  # without an argument finfo reads the default dtype, which is guarded
    Kind("torch.Stream", make="unknown", methods="unknown"),
    Kind("torch.Event", make="unknown", methods="unknown"),
    *(Kind(kind) for kind in getattr(torch.return_types, "all_return_types", ())),  # tuples with names
    Kind("torch._C.DisableTorchFunction", make="mode", methods="mode"),
    Kind("torch._C.DisableTorchFunctionSubclass", make="mode", methods="mode"),
)

"""How exactly torch multiplies: the settings of precision, of which older ones write to newer ones.

A newer one is asked for by backend and operation and answers with its parent's value where it has none of its own;
an older one cannot be read once the newer ones it stands for differ.  So what was set is known only where no
parent has a value, and a sequence of calls is kept as such a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...torch_ports.state import get_fp32_precision, set_fp32_precision, setting_function, setting_functions


class Setting(NamedTuple):
    """One setting: its name for reasons, how it is read and how it is set, and whether it is about CUDA alone."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]
    cuda: bool = False


def setting_of(name: str, getter: str, setter: str, *, cuda: bool = False) -> Setting | None:
    """The setting that these functions read and write; None where this torch has none."""
    get, set_ = setting_function(getter), setting_function(setter)
    return Setting(name, get, set_, cuda) if get is not None and set_ is not None else None


def _older(name: str, getter: str, setter: str, *, cuda: bool = False) -> Setting | None:
    """One that raises where it cannot be read; read as None then."""
    found = setting_of(name, getter, setter, cuda=cuda)
    if found is None:
        return None

    def get() -> Any:
        try:
            return found.get()
        except RuntimeError:
            return None

    return found._replace(get=get)


def _together(name: str, getter: str, setter: str) -> Setting | None:
    """One that is read as a tuple and set by its parts."""
    found = setting_of(name, getter, setter, cuda=True)
    return found and found._replace(set=lambda value: found.set(*value) if type(value) is tuple else found.set(value))


_PAIRS = (
    ("generic", "all"),
    ("cuda", "all"),
    ("mkldnn", "all"),
    *((backend, op) for backend in ("cuda", "mkldnn") for op in ("conv", "rnn", "matmul")),
)


def _newer(backend: str, op: str) -> Setting:
    get, set_ = get_fp32_precision, set_fp32_precision
    return Setting(
        "fp32_precision", lambda: get(backend, op), lambda value: set_(backend, op, value), backend == "cuda"
    )


_PARENTS = tuple(_newer(backend, op) for backend, op in _PAIRS if op == "all")
_OLDER = tuple(
    filter(
        None,
        (
            _older(
                "torch.set_float32_matmul_precision", "_get_float32_matmul_precision", "_set_float32_matmul_precision"
            ),
            _older("torch.backends.cudnn.allow_tf32", "_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32", cuda=True),
        ),
    )
)

#: older ones first, since they write to the newer; parents before their children
PRECISION: tuple[Setting, ...] = tuple(
    filter(
        None,
        (
            *_OLDER,
            *_PARENTS,
            *(_newer(backend, op) for backend, op in _PAIRS if op != "all"),
            _together(
                "allow_fp16_reduced_precision_reduction",
                "_get_cublas_allow_fp16_reduced_precision_reduction",
                "_set_cublas_allow_fp16_reduced_precision_reduction",
            ),
            _together(
                "allow_bf16_reduced_precision_reduction",
                "_get_cublas_allow_bf16_reduced_precision_reduction",
                "_set_cublas_allow_bf16_reduced_precision_reduction",
            ),
            setting_of(
                "allow_fp16_accumulation",
                "_get_cublas_allow_fp16_accumulation",
                "_set_cublas_allow_fp16_accumulation",
                cuda=True,
            ),
            setting_of(
                "torch.backends.cpu.allow_fp16_reduced_precision_reduction",
                "_get_cpu_allow_fp16_reduced_precision_reduction",
                "_set_cpu_allow_fp16_reduced_precision_reduction",
            ),
            setting_of(
                "allow_fp16_bf16_reduction_math_sdp",
                "_get_math_sdp_allow_fp16_bf16_reduction",
                "_set_math_sdp_allow_fp16_bf16_reduction",
            ),
            setting_of(
                "torch.backends.cudnn.depthwise_kernel",
                "_get_cudnn_depthwise_kernel",
                "_set_cudnn_depthwise_kernel",
                cuda=True,
            ),
            setting_of(
                "torch.backends.cudnn.benchmark_limit",
                "_cuda_get_cudnn_benchmark_limit",
                "_cuda_set_cudnn_benchmark_limit",
                cuda=True,
            ),
        ),
    )
)

#: C functions that only change these, and warn about nothing
PRECISION_SETTERS: tuple[Any, ...] = setting_functions(
    "_set_float32_matmul_precision",
    "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32",
    "_set_fp32_precision_setter",
    "_set_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction",
    "_set_cublas_allow_fp16_accumulation",
    "_set_cpu_allow_fp16_reduced_precision_reduction",
    "_set_math_sdp_allow_fp16_bf16_reduction",
    "_set_cudnn_depthwise_kernel",
    "_cuda_set_cudnn_benchmark_limit",
)


def read_precision() -> list[Any]:
    """All of them, as they are now."""
    return [setting.get() for setting in PRECISION]


def reads_as_set(values: list[Any]) -> bool:
    """Return whether what was read is what was set: older ones can be read, and no parent has a value."""
    older, parents = values[: len(_OLDER)], values[len(_OLDER) : len(_OLDER) + len(_PARENTS)]
    return None not in older and all(value == "none" for value in parents)

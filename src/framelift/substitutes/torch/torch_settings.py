"""Substitutes for settings of torch that the native snapshot of its state does not hold: reading one guards it, setting
a precision guards them all; and for questions about CUDA devices: what one can do is a constant, which is current is
guarded.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ...boundary.becomes.leaves import is_leaf
from ...calls.call_tables import SUBSTITUTES, substitute
from ...calls.pure.torch_helpers import STATE
from ...calls.pure.words import found
from ...graph.state.settings import has_parent_precision, read_settings
from ...graph.state.torch_state import kernel_at_first
from ...guards.checks import check
from ...guards.equality import indistinguishable
from ...overriding import transforms  # noqa: F401  what it answers itself is no setting
from ...recording.rules.state_calls import touch_settings
from ...recording.session import Session
from ...torch_ports.state import setting_functions
from ...torch_ports.tensors import cuda_get_device
from ...vocabulary.origins import const
from ...vocabulary.reasons import Interrupt


def _only_leaves(callable_: Any, args: tuple[Any, ...]) -> None:
    if not all(map(is_leaf, args)):
        raise Interrupt("unknown-callable", f"torch._C.{callable_.__name__}")


@substitute(
    *setting_functions(
        "_set_cublas_allow_fp16_reduced_precision_reduction",
        "_set_cublas_allow_bf16_reduced_precision_reduction",
        "_set_cublas_allow_fp16_accumulation",
        "_set_cpu_allow_fp16_reduced_precision_reduction",
        "_set_math_sdp_allow_fp16_bf16_reduction",
        "_set_cudnn_depthwise_kernel",
        "_cuda_set_cudnn_benchmark_limit",
    )
)
def _set_reduction(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    raise Interrupt("torch-state", f"torch._C.{callable_.__name__}")


@substitute(
    *setting_functions(
        "_set_float32_matmul_precision", "_set_cublas_allow_tf32", "_set_cudnn_allow_tf32", "_set_fp32_precision_setter"
    )
)
def _set_precision(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Done for the length of the rehearsal.  What is left of it depends on all settings before it."""
    if kwargs or not all(arg in _PRECISIONS for arg in args) or has_parent_precision():  # of others torch may warn
        raise Interrupt("torch-state", f"torch._C.{callable_.__name__}")
    touch_settings(session.recorder)
    session.guard_answer(has_parent_precision, False)
    session.guard_answer(read_settings, session.settings.before)
    return callable_(*args)


_PRECISIONS = (True, False, *"highest high medium ieee tf32 bf16 none cuda mkldnn conv rnn matmul".split())


def _guard(session: Session, callable_: Any, args: tuple[Any, ...], value: Any) -> None:
    asked = functools.partial(_gives_for, args, value)
    session.guard(const(callable_), "CHECK", (asked, f"{args!r} == {value!r}"), args)


@check
def _gives_for(args: tuple[Any, ...], value: Any, ask: Any) -> bool:
    return indistinguishable(ask(*args), value)


def _precision(session: Session, callable_: Any, /, *args: Any) -> Any:
    _only_leaves(callable_, args)
    value = callable_(*args)
    _guard(session, callable_, args, value if args else session.settings.at_first(callable_, value))
    return value


def _setting(session: Session, callable_: Any) -> Any:
    value = callable_()
    _guard(session, callable_, (), kernel_at_first(callable_, session.settings.at_first(callable_, value)))
    return value


#: settings, and who answers for those of their readers that the native snapshot does not
_ANSWERS = {"precision": _precision, **dict.fromkeys(("kernels", "autograd", "threads", "warnings"), _setting)}
_NATIVE = frozenset(
    map(
        found,
        (
            f"torch._C._get_{name}"
            for name in "cudnn_enabled cudnn_benchmark cudnn_deterministic mkldnn_enabled".split()
        ),
    )
)

for _name, _answer in _ANSWERS.items():
    for _func in map(found, STATE[_name]):
        if _func is not None and _func not in _NATIVE and id(_func) not in SUBSTITUTES:
            substitute(_func)(_answer)


# ---- Substitutes for questions about CUDA devices: what one can do is a constant, which is current is gua ----


_current = cuda_get_device  # builds without CUDA have none


def _guard_current(session: Session) -> int:
    assert _current is not None
    value = int(_current())
    session.guard_answer(_current, value)
    return value


def _of_device(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A fact about a device, the current one if none is named."""
    if not all(map(is_leaf, (*args, *kwargs.values()))):
        raise Interrupt("unknown-callable", callable_.__qualname__)
    if not torch.cuda.is_initialized() and torch.cuda.is_available():
        raise Interrupt("unknown-callable", f"{callable_.__qualname__}, before CUDA is initialized")
    if torch.cuda.is_initialized():
        _guard_current(session)
    return callable_(*args, **kwargs)


@substitute(torch.cuda.device_count)
def _device_count(session: Session, callable_: Any) -> Any:
    """Return the number of devices, as far as the driver knows."""
    return callable_()


if _current is not None:
    substitute(_current)(_guard_current)
    substitute(torch.cuda.get_device_capability, torch.cuda.get_device_name, torch.cuda.is_bf16_supported)(_of_device)

"""Substitutes for questions about CUDA devices: what one can do is a constant, which is current is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...boundary.becomes.leaves import is_leaf
from ...calls.call_tables import substitute
from ...torch_ports.tensors import cuda_get_device
from ...vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ...recording.session import Session

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

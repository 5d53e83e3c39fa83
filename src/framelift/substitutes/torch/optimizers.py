"""Steps of torch's optimizers that look at how many steps there were: while compiling, torch leaves that number a
tensor.

The same step as torch writes it for CUDA graphs (`capturable`) chooses by tensors too, so one capture serves every
step.  RAdam's does so in single precision, which is not enough for it: its steps are left as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._core import is_a
from ...calls.call_tables import substitute
from ...overriding.opened_functions import with_own_code
from ...torch_ports.tensors import multi_tensor_asgd, single_tensor_asgd

if TYPE_CHECKING:
    from ...recording.session import Session

_STEPS: tuple[Any, ...] = (single_tensor_asgd, multi_tensor_asgd)


_OWN = {step: with_own_code(step) for step in _STEPS}


@substitute(*_STEPS)
def _step(session: Session, callable_: Any, /, *args: Any, **kwargs: Any) -> Any:
    devices = {session.value_of(tensor).facts.device for row in args for tensor in row if is_a(tensor, torch.Tensor)}
    # with steps elsewhere than the parameters it is not meant for this
    if kwargs.get("capturable") is False and len(devices) == 1:
        kwargs = {**kwargs, "capturable": True}
    return _core.captured(_OWN[callable_], args, kwargs)

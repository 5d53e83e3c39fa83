"""Full backward hooks of modules: a call that autograd follows breaks the graph, others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import BackwardHook

from .. import _core
from .._core import is_a
from ..calls.call_tables import substitute
from ..overriding.opened_functions import with_own_code
from ..torch_ports.autograd import is_grad_enabled
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Session

_OWN = {one: with_own_code(one) for one in (BackwardHook.setup_input_hook, BackwardHook.setup_output_hook)}


@substitute(*_OWN)
def _hooked(session: Session, callable_: Any, self: Any, args: Any) -> Any:
    tensors = [one for one in (args if is_a(args, tuple) else (args,)) if is_a(one, torch.Tensor)]
    if is_grad_enabled() and any(session.value_of(one).facts.requires_grad for one in tensors):
        raise Interrupt("torch-operation", "a full backward hook of a module")
    return _core.captured(_OWN[callable_], (self, args), None)

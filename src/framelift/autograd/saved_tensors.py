"""`torch.autograd.graph.saved_tensors_hooks` in captured code: the region is entered and left in eager mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.autograd.graph import saved_tensors_hooks

from ..calls.call_tables import substitute
from ..vocabulary.reasons import Interrupt

if TYPE_CHECKING:
    from ..recording.session import Session


@substitute(saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__)
def _region(session: Session, /, *args: Any, **kwargs: Any) -> Any:
    raise Interrupt("torch-state", "torch.autograd.graph.saved_tensors_hooks")

"""What a call may not leave changed: torch's state, and Python's."""

from __future__ import annotations

import gc
import logging
import random
import sys
import warnings
from typing import Any

import torch

from framelift import _core, config

__all__ = ["state_now"]


def state_now() -> dict[str, Any]:
    """By names, comparable."""
    return {
        "torch state": _core.torch_state().as_dict(),
        "autocast nesting": _nesting(),
        "random numbers": torch.get_rng_state().numpy().tobytes(),
        "hooks on saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "transforms": torch._C._functorch.peek_interpreter_stack(),
        "tracing context": torch._guards.TracingContext.try_get(),
        "torch.nn.Module": (torch.nn.Module.__call__, torch.nn.Module.__getattr__),
        "autograd.Function": torch.autograd.Function.__dict__["apply"],
        "Python's random numbers": random.getstate(),
        "warnings filters": (type(warnings.filters), [repr(row) for row in warnings.filters]),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "recursion limit": sys.getrecursionlimit(),
        "hooks of sys": (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.gettrace(), sys.getprofile()),
        "logging": logging.root.manager.disable,
        "frame evaluator": _core.hook_users(),
        "mode": _core.get_mode(),
        "options": config.get_config_copy(),
    }


def _nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()

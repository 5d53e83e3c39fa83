"""What the hook does with a code object: its twin, a handler, or a refusal; and which frames are worth a capture of their own."""

from __future__ import annotations

import functools
import os
import sysconfig
import types
from typing import Any

import torch

from .. import _core
from ..rehearsal.recorder import is_torch_operation
from ..rehearsal.registry import SUBSTITUTES
from ..rehearsal.substitutes import torch_call
from ..twin import make_twin

__all__ = ["resolve_code", "skipped"]

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_PACKAGES = sysconfig.get_paths()["purelib"] + os.sep
_NO_CAPTURE = ("torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "torch/fx/", "torch/_subclasses/", "torch/export/", "torch/jit/")
_ASYNC = 0x80 | 0x200   # CO_COROUTINE, CO_ASYNC_GENERATOR


@functools.cache
def _handlers() -> dict[types.CodeType, Any]:
    """Python functions that have a substitute, by their code: C code may start their frames."""
    return {f.__code__: handler for f, handler in SUBSTITUTES.values() if isinstance(f, types.FunctionType)}


@functools.cache
def _operation_codes() -> frozenset[types.CodeType]:
    from ..rehearsal.recorder import torch_operations
    return frozenset(f.__code__ for f in torch_operations() if isinstance(f, types.FunctionType))


def resolve_code(code: types.CodeType) -> Any:
    """A twin (code object), None for framelift's own code, a handler, or a text: why its frames cannot be watched."""
    if code.co_filename.startswith(_HERE):
        return None
    handler = _handlers().get(code)
    if handler is not None:
        return handler
    if code in _operation_codes():
        return torch_call
    if code.co_filename.startswith(_TORCH + "_dynamo" + os.sep):
        return f"disabled|{code.co_qualname}"
    if code.co_flags & _ASYNC:
        return f"the coroutine {code.co_qualname}"
    return make_twin(code, _core.PROBES)


def skipped(code: types.CodeType) -> bool:
    """Whether frames of this code run plainly when their caller could not be captured."""
    name = code.co_filename
    if name.startswith(_TORCH):
        return not name.startswith((_TORCH + "nn" + os.sep + "modules", _TORCH + "optim"))
    if name.startswith(_HERE) or name.startswith("<"):
        return True
    return name.startswith(_STDLIB) and not name.startswith(_PACKAGES)


_ = is_torch_operation
